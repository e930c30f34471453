/** What every projection's writer gets, and how it decodes a block: records that do not decode, or cannot be used, stand apart with their cause. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { DeadLetters } from '@questlog/runtime/consumer/deadLetters';
import type { LogRecord } from '@questlog/runtime/log/log';
import { Invalid } from '@questlog/runtime/process/errors';
import type { Codec } from '@questlog/runtime/registry/registry';

export interface WriterDeps<Message> {
  readonly store: Store;
  readonly codec: Codec<Message>;
  readonly deadLetters: DeadLetters;
  readonly logId: string;
  readonly partition: number;
  /** Of the topic. */
  readonly partitions: number;
  /** `ignored`: a record that is meant for others, or that changes nothing. */
  onOutcome(outcome: 'written' | 'repeated' | 'ignored' | 'dead', records: number): void;
}

export interface Decoded<T> {
  readonly offset: number;
  readonly message: T;
}

export interface Dead {
  readonly record: LogRecord;
  readonly cause: Invalid;
}

/** @param faultOf what makes a decoded message unusable all the same, as a sentence. */
export async function decodeAll<T>(
  codec: Codec<T>,
  records: readonly LogRecord[],
  faultOf: (message: T) => string | undefined = () => undefined,
): Promise<{ decoded: Decoded<T>[]; dead: Dead[] }> {
  const decoded: Decoded<T>[] = [];
  const dead: Dead[] = [];
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
