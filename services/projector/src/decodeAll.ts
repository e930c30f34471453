/** Decodes a block's records; those that do not decode are told apart with their cause. */
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

export async function decodeAll<T>(
  codec: Codec<T>,
  records: readonly LogRecord[],
): Promise<{ decoded: Decoded<T>[]; dead: Dead[] }> {
  const decoded: Decoded<T>[] = [];
  const dead: Dead[] = [];
  for (const record of records) {
    try {
      decoded.push({ offset: record.offset, message: await codec.decode(record.value) });
    } catch (error) {
      if (!(error instanceof Invalid)) throw error;
      dead.push({ record, cause: error });
    }
  }
  return { decoded, dead };
}
