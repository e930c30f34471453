/** Interface between a service that projects a topic and `blocks.ts`, which drives it. */
import type { LogRecord } from '../log/log.ts';
import type { Invalid } from '../process/errors.ts';
import type { RecordIdentity } from './findTruncation.ts';

export interface Block {
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly LogRecord[];
  /** First offset of the block, and the offset after the block, markers and gaps included. */
  readonly start: number;
  readonly end: number;
  /** Identity of the block's last record. */
  readonly last: RecordIdentity | undefined;
}

/** Writes blocks. `plan` runs once per block, `apply` until it succeeds. */
export interface BlockWriter<Plan> {
  plan(block: Block): Promise<Plan>;
  /** @throws Invalid if ClickHouse rejects the data; Unavailable if a retry can succeed. */
  apply(plan: Plan, attempt: Attempt): Promise<void>;
  /** Sends the single record of a rejected block to the dead letters, unless it is already there. */
  deadLetter(block: Block, cause: Invalid): Promise<void>;
}

export interface Attempt {
  /** True if the block may have stored rows. The writer then reads them first and inserts only missing rows. */
  readonly verify: boolean;
  /**
   * Must be awaited directly before each insert, because a suspended process may have lost the partition.
   * @throws Fenced if another process owns the partition.
   */
  confirm(): Promise<void>;
}
