/** Finds the first record of each session or report. Later records with the same id are ignored. */
import { chunksOf, type Store } from '@questlog/runtime/clickhouse/store';
import type { Block } from '@questlog/runtime/consumer/blockWriter';
import type { DecodedRecord, Source } from './writer.ts';

export interface EntityTable<Message> {
  readonly store: Store;
  readonly source: Source;
  readonly table: string;
  idOf(message: Message): EntityId;
}

/** Id of a session or report. The id is unique only inside its project. */
export interface EntityId {
  readonly projectId: string;
  readonly id: string;
}

/** Returns the first record of each session or report. Omits a session or report that has a row from an earlier block. */
export async function firstRecords<Message>(
  entities: EntityTable<Message>,
  block: Block,
  decoded: readonly DecodedRecord<Message>[],
): Promise<DecodedRecord<Message>[]> {
  const rows = await storedRows(entities, decoded);
  const seen = new Set(rows.filter((row) => !isOfBlock(row, entities.source, block)).map(keyOf));
  return decoded.filter(({ message }) => {
    const key = keyOf(entities.idOf(message));
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

export async function storedFirstOffsets<Message>(
  entities: EntityTable<Message>,
  block: Block,
  decoded: readonly DecodedRecord<Message>[],
): Promise<Set<number>> {
  const rows = await storedRows(entities, decoded);
  return new Set(
    rows.filter((row) => isOfBlock(row, entities.source, block)).map(({ offset }) => Number(offset)),
  );
}

export function keyOf({ projectId, id }: EntityId): string {
  return `${projectId}/${id}`;
}

interface StoredRow extends EntityId {
  readonly logId: string;
  readonly partition: number;
  readonly offset: string;
}

async function storedRows<Message>(
  { store, table, idOf }: EntityTable<Message>,
  decoded: readonly DecodedRecord<Message>[],
): Promise<StoredRow[]> {
  const stored: StoredRow[] = [];
  for (const part of chunksOf(decoded.map(({ message }) => idOf(message)))) {
    const rows = await store.query<StoredRow>(
      `SELECT project_id AS projectId, id, log_id AS logId, log_partition AS partition, log_offset AS offset
       FROM ${table} WHERE project_id IN {projects:Array(UUID)} AND id IN {ids:Array(UUID)}`,
      { projects: [...new Set(part.map(({ projectId }) => projectId))], ids: part.map(({ id }) => id) },
    );
    stored.push(...rows);
  }
  return stored;
}

function isOfBlock({ logId, partition, offset }: StoredRow, source: Source, block: Block): boolean {
  const isOfSource = logId === source.logId && partition === source.partition;
  return isOfSource && Number(offset) >= block.start && Number(offset) < block.end;
}
