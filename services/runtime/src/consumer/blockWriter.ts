/** What has the effects of a block of records: written by whoever projects a topic, driven by `blocks.ts`. */
import type { LogRecord } from '../log/log.ts';
import type { Invalid } from '../process/errors.ts';
import type { RecordIdentity } from './findTruncation.ts';

export interface Block {
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly LogRecord[];
  /** First offset of the block, and the first behind it (markers and gaps included). */
  readonly start: number;
  readonly end: number;
  /** Of its last record. */
  readonly last: RecordIdentity | undefined;
}

/** Turns a block into effects. `plan` runs once a block, `apply` until it succeeds. */
export interface BlockWriter<Plan> {
  plan(block: Block): Promise<Plan>;
  /** @throws Invalid when the data itself is refused; Unavailable when it is worth another try. */
  apply(plan: Plan, attempt: Attempt): Promise<void>;
  /** Sends a block whose data is refused, of one record, to the dead letters with the cause, unless it is there. */
  deadLetter(block: Block, cause: Invalid): Promise<void>;
}

export interface Attempt {
  /** Something of the block may be in place already: read first, then write only what is missing. */
  readonly verify: boolean;
  /**
   * Awaited right before each insert: a process that was stopped for longer than its session must not wake up and
   * insert what its successor has inserted. @throws Fenced when the partition is another's.
   */
  confirm(): Promise<void>;
}
