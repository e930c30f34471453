/** Keeps what each consumer group has committed, and the smallest of it, which holds retention back. */
import type { StatementSync } from 'node:sqlite';
import type { Committed } from '../log.ts';
import type { LogDatabase } from './database.ts';
import type { PartitionState } from './topicCatalog.ts';

export class CommittedOffsets {
  readonly #database: LogDatabase;
  readonly #select: StatementSync;
  readonly #save: StatementSync;
  readonly #smallest: StatementSync;

  constructor(database: LogDatabase) {
    const { sqlite } = database;
    this.#database = database;
    this.#select = sqlite.prepare(
      'SELECT next_offset, metadata FROM commits WHERE partition_id = ? AND consumer_group = ?',
    );
    this.#save = sqlite.prepare(
      'INSERT OR REPLACE INTO commits (partition_id, consumer_group, next_offset, metadata) VALUES (?, ?, ?, ?)',
    );
    this.#smallest = sqlite.prepare(
      'SELECT min(next_offset) AS smallest FROM commits WHERE partition_id = ?',
    );
  }

  get(group: string, partition: PartitionState): Committed | undefined {
    return this.#database.read(() => {
      const row = this.#select.get(partition.id, group);
      if (row === undefined) return undefined;
      return { offset: Number(row['next_offset']), metadata: String(row['metadata']) };
    });
  }

  /** Inside a transaction of the database. */
  save(group: string, partition: PartitionState, { offset, metadata }: Committed): void {
    this.#save.run(partition.id, group, offset, metadata);
  }

  /** Of all groups that ever committed on the partition; undefined where none did. */
  smallest(partition: PartitionState): number | undefined {
    return this.#database.read(() => {
      const smallest = this.#smallest.get(partition.id)?.['smallest'];
      return typeof smallest === 'number' ? smallest : undefined;
    });
  }
}
