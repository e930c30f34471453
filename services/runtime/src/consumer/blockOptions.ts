/** Options of `runBlocks`, which writes the records of a consumer to ClickHouse in blocks. */
import type { TablesId } from '../clickhouse/restored/tableUuids.ts';
import type { Log } from '../log/log.ts';
import type { StoredRows, Truncation } from '../log/truncation/findTruncation.ts';
import type { Clock } from '../process/clock.ts';
import type { Logger } from '../process/logger.ts';
import type { Block, BlockWriter } from './blockWriter.ts';
import type { ShardOfPartition } from './shardInUse.ts';

export interface BlockOptions<Plan> {
  readonly log: Pick<Log, 'offsetRanges' | 'endOffset'>;
  readonly topic: string;
  readonly tablesId: TablesId;
  readonly storedRows: StoredRows;
  /** Opens a writer that inserts into `shard`, and whose first block starts at the offset `start`. Reads the stored rows. */
  openWriter(start: number, shard: string | undefined): Promise<BlockWriter<Plan>>;
  /** Undefined if ClickHouse is not a cluster, or if no table of the topic is sharded. */
  readonly shard?: ShardOfPartition | undefined;
  readonly flushIntervalMs: number;
  readonly insertsEndWithinMs: number;
  /** Must be a monotonic clock. A system clock can be set back, which would delay the next insert. */
  readonly clock: Clock;
  readonly logger: Logger;
  onWritten(block: Block, startedAtMs: number): void;
  /** Calls `write`, and records this work in the traces of the block's records. Tests without traces omit this function. */
  inTraces?(block: Block, write: () => Promise<void>): Promise<void>;
  /**
   * Waits until `confirm` has confirmed that this process owns the partition. Then stores `nextOffset` in ClickHouse. The
   * stored offset means that the tables contain the rows of all records below it.
   */
  publishStart(nextOffset: number, tablesId: string, confirm: () => Promise<void>): Promise<void>;
  onProjected(nextOffset: number, tablesId: string): void;
  /** Reports a repaired truncation. @param records the number of records that the log lost. */
  onTruncation(truncation: Truncation, records: number): void;
}
