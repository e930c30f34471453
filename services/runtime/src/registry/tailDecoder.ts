/** Decodes the records of a tail, which follows a topic. Waits for the registry, because an error would end the tail. */
import type { LogRecord } from '../log/log.ts';
import type { Logger } from '../process/logger.ts';
import { retryUntilAvailable } from '../process/waiting.ts';
import type { Codec } from './registry.ts';

export interface TailDecoder<T> {
  /** Decodes a record. @throws Invalid if the record is invalid. @throws Unavailable only after `close`. */
  decode(record: Pick<LogRecord, 'offset' | 'value'>, partition: number): Promise<T>;
  /**
   * Stops waiting for the registry. Must be called before the tail (the reader of the log) is closed, because the close waits
   * until the current record is decoded.
   */
  close(): void;
}

export function openTailDecoder<T>(deps: { codec: Codec<T>; logger: Logger; topic: string }): TailDecoder<T> {
  const { codec, logger, topic } = deps;
  const closed = new AbortController();
  return {
    decode: ({ offset, value }, partition) =>
      retryUntilAvailable(() => codec.decode(value), {
        signal: closed.signal,
        onDelay: (cause, backoffMs) =>
          logger.error('tail_delayed', cause, { topic, partition, offset, backoffMs }),
      }),
    close: () => closed.abort(),
  };
}
