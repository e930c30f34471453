/** Interface for writers of blocks. A block is a range of records whose rows are inserted into ClickHouse together. */
import type { LogRecord } from '../log/log.ts';
import type { RecordIdentity } from '../log/projection/commitMetadata.ts';
import type { Invalid } from '../process/errors.ts';

export interface Block {
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly LogRecord[];
  /** First offset of the block. The offsets of a block include transaction markers and gaps. */
  readonly start: number;
  readonly end: number;
  readonly last: RecordIdentity | undefined;
}

/**
 * Writes the rows of blocks to ClickHouse. `plan` computes the rows and is called one time for each block. `apply` inserts
 * these rows and is called again until it succeeds.
 */
export interface BlockWriter<Plan> {
  plan(block: Block): Promise<Plan>;
  /** Inserts the rows of `plan`. @throws Invalid if ClickHouse rejects the data. @throws Unavailable if a retry can succeed. */
  apply(plan: Plan, attempt: Attempt): Promise<void>;
  /** Sends the block's only record to the dead letters. Does nothing if the dead letters already contain the record. */
  deadLetter(block: Block, cause: Invalid): Promise<void>;
}

export interface Attempt {
  /** True if the tables possibly contain rows of the block. If true, the writer inserts only the missing rows. */
  readonly verify: boolean;
  /**
   * Confirms that this process owns the partition. Await this directly before each insert.
   * @throws Fenced if another process owns the partition.
   */
  confirm(): Promise<void>;
}
