/** One reader's place in one partition: what an adapter gives to the readers that all adapters share. */
import type { Batch, ReadOptions } from './log.ts';

export type ReadBounds = Pick<ReadOptions, 'maxRecords' | 'maxBytes'>;

export interface Cursor {
  readonly topic: string;
  /** The next `take` begins here. */
  readonly position: number;
  seek(offset: number, leaderEpoch?: number, maxLeaderEpoch?: number): void;
  /**
   * Undefined when nothing is there. Without records where only markers or compacted offsets were passed.
   * @throws LogTruncated once for a cut below the position, which it moves.
   */
  take(bounds: ReadBounds): Omit<Batch, 'topic' | 'partition'> | undefined;
  /** Nothing rings any more, and nothing is read ahead. */
  release(): void;
}
