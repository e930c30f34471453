/**
 * How a tail decodes: a record whose schema must be asked for waits while the registry is away. A tail that rejects has
 * ended, and with it the process that lives on what the tail has read.
 */
import type { LogRecord } from '../log/log.ts';
import { untilAvailable } from '../process/backoff.ts';
import type { Logger } from '../process/logger.ts';
import type { Codec } from './registry.ts';

export interface TailDecoder<T> {
  /** @throws Invalid as the codec does; Unavailable only once it was closed. */
  decode(record: Pick<LogRecord, 'offset' | 'value'>, partition: number): Promise<T>;
  /** Before the tail's own close, which waits for the record that is being read. */
  close(): void;
}

export function openTailDecoder<T>(deps: { codec: Codec<T>; logger: Logger; topic: string }): TailDecoder<T> {
  const { codec, logger, topic } = deps;
  const closed = new AbortController();
  return {
    decode: ({ offset, value }, partition) =>
      untilAvailable(() => codec.decode(value), {
        signal: closed.signal,
        onDelay: (cause, backoffMs) =>
          logger.error('tail_delayed', cause, { topic, partition, offset, backoffMs }),
      }),
    close: () => closed.abort(),
  };
}
