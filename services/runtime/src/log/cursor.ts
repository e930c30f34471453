/**
 * Position of one reader in one partition. Each adapter implements its own cursors. All adapters share the readers that use the
 * cursors.
 */
import type { Batch, ReadOptions } from './log.ts';

export type ReadBounds = Pick<ReadOptions, 'maxRecords' | 'maxBytes'>;

export interface Cursor {
  readonly topic: string;
  /** Offset at which the next `take` starts. */
  readonly position: number;
  seek(offset: number, leaderEpoch?: number, maxLeaderEpoch?: number): void;
  /**
   * Returns the next records, or undefined if there are no new records. The batch is empty if only transaction markers or the
   * offsets of compacted records were passed.
   * @throws LogTruncated once if the log was truncated below the position. The position then moves to the offset of the
   *   truncation.
   */
  take(bounds: ReadBounds): Omit<Batch, 'topic' | 'partition'> | undefined;
  /** Stops notifications and discards records that were read ahead. */
  release(): void;
}
