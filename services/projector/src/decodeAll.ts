/** Decodes a block's records; those that do not decode, or cannot be used, are told apart with their cause. */
import type { LogRecord } from '@questlog/runtime/log/log';
import { Invalid } from '@questlog/runtime/process/errors';
import type { Codec } from '@questlog/runtime/registry/registry';

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
