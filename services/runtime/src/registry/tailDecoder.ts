/** Decodes the records of a tail (a reader of a topic). Retries while the registry fails, because an error ends the tail. */
import type { LogRecord } from '../log/log.ts';
import type { Logger } from '../process/logger.ts';
import { retry } from '../process/waiting.ts';
import type { Codec } from './registry.ts';

export interface TailDecoder<T> {
  /** Decodes a record. @throws Invalid if the record is invalid. @throws Unavailable only after `close`. */
  decode(record: Pick<LogRecord, 'offset' | 'value'>, partition: number): Promise<T>;
  /**
   * Makes waiting calls of `decode` throw `Unavailable`. Must run before the topic reader is closed, because closing waits for
   * `decode`.
   */
  close(): void;
}

export function openTailDecoder<T>(deps: { codec: Codec<T>; logger: Logger; topic: string }): TailDecoder<T> {
  const { codec, logger, topic } = deps;
  const closed = new AbortController();
  return {
    decode: ({ offset, value }, partition) =>
      retry(() => codec.decode(value), {
        signal: closed.signal,
        onDelay: (cause, backoffMs) =>
          logger.error('tail_delayed', cause, { topic, partition, offset, backoffMs }),
      }),
    close: () => closed.abort(),
  };
}
