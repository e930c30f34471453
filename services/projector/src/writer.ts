/** Creates a writer that decodes a block of records, inserts the rows, and sends the dead letters. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Attempt, Block, BlockWriter } from '@questlog/runtime/consumer/blockWriter';
import type { DeadLetters } from '@questlog/runtime/consumer/deadLetters';
import type { LogRecord } from '@questlog/runtime/log/log';
import type { Clock } from '@questlog/runtime/process/clock';
import { Invalid } from '@questlog/runtime/process/errors';
import type { Codec } from '@questlog/runtime/registry/registry';
import type { VisibleData } from '@questlog/schemas/visibility';
import type { HiddenEvents } from './events/core/planEvents.ts';

export interface WriterDeps<Message> {
  readonly store: Store;
  readonly codec: Codec<Message>;
  readonly clock: Clock;
  readonly deadLetters: DeadLetters;
  readonly visible: VisibleData;
  readonly logId: string;
  readonly partition: number;
  readonly orphanIds: readonly string[];
  readonly partitions: number;
  /** The outcome `ignored` means that the projector writes no rows for the records. */
  onOutcome(outcome: 'written' | 'repeated' | 'ignored' | 'dead', records: number): void;
}

export interface Source {
  readonly logId: string;
  readonly partition: number;
  /** Log ids of orphaned rows. ClickHouse still has these rows, but the log lost their records in a truncation. */
  readonly orphanIds: readonly string[];
}

export interface DecodedRecord<T> extends HiddenEvents {
  readonly offset: number;
  readonly message: T;
}

/** Projection of a topic. `plan` computes the rows of a block. `apply` inserts the rows, and runs again after an error. */
export interface Projection<Message, Plan> {
  plan(block: Block, decoded: readonly DecodedRecord<Message>[], dead: readonly DeadRecord[]): Promise<Plan>;
  apply(plan: Plan, block: Block, attempt: Attempt): Promise<void>;
  /**
   * Returns the records for which the projector writes rows. Without this method, the projector writes rows for all records.
   */
  visibleRecords?(
    visible: VisibleData,
    decoded: readonly DecodedRecord<Message>[],
  ): Promise<readonly DecodedRecord<Message>[]>;
  faultOf?(message: Message): string | undefined;
  /** Counts the records of a block in which every record becomes a dead letter. Runs before the dead letters are sent. */
  countDead?(decoded: readonly DecodedRecord<Message>[]): Promise<void>;
  /** Describes the events that are missing in ClickHouse because their record became a dead letter. */
  describeWaiting?(message: Message): string | undefined;
}

interface Planned<Plan> {
  readonly block: Block;
  readonly plan: Plan;
  readonly dead: readonly DeadRecord[];
}

export function writerOf<Message, Plan>(
  { codec, deadLetters, onOutcome, visible }: WriterDeps<Message>,
  projection: Projection<Message, Plan>,
): BlockWriter<Planned<Plan>> {
  const sendAll = async (block: Block, dead: readonly DeadRecord[], mayExist: boolean): Promise<void> => {
    for (const { record, cause } of dead) await deadLetters.send(block, record, cause, mayExist);
    onOutcome('dead', dead.length);
  };
  return {
    plan: async (block) => {
      const { decoded, dead } = await decodeAll(codec, block.records, projection.faultOf);
      const kept = (await projection.visibleRecords?.(visible, decoded)) ?? decoded;
      const plan = await projection.plan(block, kept, dead);
      onOutcome('ignored', decoded.length - kept.length);
      deadLetters.countProcessed(decoded.length);
      return { block, plan, dead };
    },
    apply: async ({ block, plan, dead }, attempt) => {
      await projection.apply(plan, block, attempt);
      // Sends the dead letters after the insert, because a failed insert repeats the whole function and would send them again.
      await sendAll(block, dead, attempt.verify);
    },
    deadLetter: async (block, cause) => {
      const { decoded } = await decodeAll(codec, block.records);
      await projection.countDead?.(decoded);
      const waiting = new Map(
        decoded.map(({ offset, message }) => [offset, projection.describeWaiting?.(message)]),
      );
      const dead = block.records.map((record) => ({
        record,
        cause: addWaiting(waiting.get(record.offset), cause),
      }));
      await sendAll(block, dead, true);
    },
  };
}

function addWaiting(waiting: string | undefined, cause: Invalid): Invalid {
  return waiting === undefined ? cause : new Invalid(`${waiting}: ${cause.message}`, { cause: cause.cause });
}

export interface DeadRecord {
  readonly record: LogRecord;
  readonly cause: Invalid;
}

export async function decodeAll<T>(
  codec: Codec<T>,
  records: readonly LogRecord[],
  faultOf: (message: T) => string | undefined = () => undefined,
): Promise<{ decoded: DecodedRecord<T>[]; dead: DeadRecord[] }> {
  const decoded: DecodedRecord<T>[] = [];
  const dead: DeadRecord[] = [];
  for (const record of records) {
    try {
      const message = await codec.decode(record.value);
      const fault = faultOf(message);
      if (fault !== undefined) throw new Invalid(fault);
      decoded.push({ offset: record.offset, message });
    } catch (error) {
      if (!(error instanceof Invalid)) throw error;
      dead.push({ record, cause: error });
    }
  }
  return { decoded, dead };
}
