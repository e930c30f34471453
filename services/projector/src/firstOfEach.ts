/** Finds the first of several records that name one thing, in the block and in the thing's table; only it counts. */
import { chunksOf, type Store } from '@questlog/runtime/clickhouse/store';
import type { Block } from '@questlog/runtime/consumer/blockWriter';
import type { Decoded, Source } from './writer.ts';

/** What is named, and where the first record of each name is kept. */
export interface Firsts<Message> {
  readonly store: Store;
  readonly source: Source;
  /** Holds `project_id`, `id` and the log's coordinates of the first record of each. */
  readonly table: string;
  nameOf(message: Message): Name;
}

/** Ids are unique inside a project only. */
export interface Name {
  readonly projectId: string;
  readonly id: string;
}

/** Leaves out what an earlier record named, in this block or in the table (this very block's rows are no rival). */
export async function firstOfEach<Message>(
  firsts: Firsts<Message>,
  block: Block,
  decoded: readonly Decoded<Message>[],
): Promise<Decoded<Message>[]> {
  const rows = await heldRows(firsts, decoded);
  const taken = new Set(rows.filter((row) => !isOfBlock(row, firsts.source, block)).map(keyOf));
  return decoded.filter(({ message }) => {
    const key = keyOf(firsts.nameOf(message));
    if (taken.has(key)) return false;
    taken.add(key);
    return true;
  });
}

/** Tells which of the block's offsets the table holds. */
export async function firstOffsetsHeld<Message>(
  firsts: Firsts<Message>,
  block: Block,
  decoded: readonly Decoded<Message>[],
): Promise<Set<number>> {
  const rows = await heldRows(firsts, decoded);
  return new Set(
    rows.filter((row) => isOfBlock(row, firsts.source, block)).map(({ offset }) => Number(offset)),
  );
}

export function keyOf({ projectId, id }: Name): string {
  return `${projectId}/${id}`;
}

/** Where the record that made it lies. */
interface HeldRow extends Name {
  readonly logId: string;
  readonly partition: number;
  readonly offset: string;
}

async function heldRows<Message>(
  { store, table, nameOf }: Firsts<Message>,
  decoded: readonly Decoded<Message>[],
): Promise<HeldRow[]> {
  const held: HeldRow[] = [];
  for (const part of chunksOf(decoded.map(({ message }) => nameOf(message)))) {
    const rows = await store.query<HeldRow>(
      `SELECT project_id AS projectId, id, log_id AS logId, log_partition AS partition, log_offset AS offset
       FROM ${table} WHERE project_id IN {projects:Array(UUID)} AND id IN {ids:Array(UUID)}`,
      { projects: [...new Set(part.map(({ projectId }) => projectId))], ids: part.map(({ id }) => id) },
    );
    held.push(...rows);
  }
  return held;
}

/** Rows of other logs and of the same ids in other projects come along with a look-up. */
function isOfBlock({ logId, partition, offset }: HeldRow, source: Source, block: Block): boolean {
  const isOfSource = logId === source.logId && partition === source.partition;
  return isOfSource && Number(offset) >= block.start && Number(offset) < block.end;
}
