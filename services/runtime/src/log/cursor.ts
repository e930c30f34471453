/** Reading position in one partition. Each adapter implements this interface. */
import type { Batch, ReadOptions } from './log.ts';

export type ReadBounds = Pick<ReadOptions, 'maxRecords' | 'maxBytes'>;

export interface Cursor {
  readonly topic: string;
  /** Offset of the first record that the next `take` can return. */
  readonly position: number;
  seek(offset: number, leaderEpoch?: number, maxLeaderEpoch?: number): void;
  /**
   * Returns the next records, or undefined if no new records exist. The batch is empty if the cursor found only transaction
   * markers or compacted records.
   * @throws LogTruncated one time if the log was truncated below the position. The position then moves to the offset of the
   *   truncation.
   */
  take(bounds: ReadBounds): Omit<Batch, 'topic' | 'partition'> | undefined;
  /** Stops calls of `notify` and discards records that were fetched ahead. */
  release(): void;
}
