/** Position of a reader in one partition. Each adapter implements this interface. */
import type { Batch, ReadOptions } from './log.ts';

export type ReadBounds = Pick<ReadOptions, 'maxRecords' | 'maxBytes'>;

export interface Cursor {
  readonly topic: string;
  /** Offset of the first record that the next call of `take` can return. */
  readonly position: number;
  seek(offset: number, leaderEpoch?: number, maxLeaderEpoch?: number): void;
  /**
   * Returns the next records, or undefined if no new records exist. The batch is empty if the cursor only skipped transaction
   * markers or compacted records.
   * @throws LogTruncated one time if a truncation has removed records below `position`. `position` is then the first lost
   * offset.
   */
  take(bounds: ReadBounds): Omit<Batch, 'topic' | 'partition'> | undefined;
  /** Closes the cursor: it stops calling `notify`, and discards the records that it has fetched in advance. */
  release(): void;
}
