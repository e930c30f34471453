/** Finds the first of several records that name one thing, in the block and in the thing's table; only it counts. */
import { partsOf, type Store } from '@questlog/runtime/clickhouse/store';
import type { Block } from '@questlog/runtime/consumer/blocks';
import type { Decoded, Source } from './writer.ts';

export interface FirstsDeps<Message> {
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

export interface Firsts<Message> {
  /** Leaves out what an earlier record named, in this block or in the table (this very block's rows are no rival). */
  firstOfEach(block: Block, decoded: readonly Decoded<Message>[]): Promise<Decoded<Message>[]>;
  /** Tells which of the block's offsets the table holds. */
  offsetsHeld(block: Block, decoded: readonly Decoded<Message>[]): Promise<Set<number>>;
}

export function openFirsts<Message>({ store, source, table, nameOf }: FirstsDeps<Message>): Firsts<Message> {
  const heldOf = (decoded: readonly Decoded<Message>[]) =>
    heldRows(
      store,
      table,
      decoded.map(({ message }) => nameOf(message)),
    );
  return {
    firstOfEach: async (block, decoded) => {
      const taken = new Set<string>();
      for (const row of await heldOf(decoded)) {
        if (!isOfBlock(row, source, block)) taken.add(keyOf(row));
      }
      return decoded.filter(({ message }) => {
        const key = keyOf(nameOf(message));
        if (taken.has(key)) return false;
        taken.add(key);
        return true;
      });
    },
    offsetsHeld: async (block, decoded) => {
      const rows = await heldOf(decoded);
      return new Set(rows.filter((row) => isOfBlock(row, source, block)).map((row) => Number(row.offset)));
    },
  };
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

async function heldRows(store: Store, table: string, names: readonly Name[]): Promise<HeldRow[]> {
  const held: HeldRow[] = [];
  for (const part of partsOf(names)) {
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
