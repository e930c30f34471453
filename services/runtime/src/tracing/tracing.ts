/**
 * Interface of traces. Code outside this folder uses only this interface. If tracing is off, the interface is undefined and no
 * module of OpenTelemetry is loaded.
 */
import type { LogRecord } from '../log/log.ts';

export interface Tracing {
  /** Starts the span of a request. Returns undefined if the sampler does not select the request. */
  startRequest(method: string, traceparent: string | undefined): RequestSpan | undefined;
  /** True if the caller runs inside a span that has not ended. */
  isActive(): boolean;
  /** Runs the work in a child of the current span. Without a current span, only runs the work. */
  inSpan<T>(span: NewSpan, work: (traceparent: string | undefined) => Promise<T>): Promise<T>;
  /**
   * Runs `work`, which processes a batch. Starts one span for this work in each of the traces. The child spans belong to the
   * first trace and link to the other traces. Ignores traces that are not sampled.
   */
  inTraces<T>(span: NewSpan, traceparents: readonly string[], work: () => Promise<T>): Promise<T>;
  /** Returns the id of the current trace. */
  traceId(): string | undefined;
  /** Starts the export of the spans that have ended. */
  flush(): void;
  /** Exports the remaining spans for a limited time. */
  close(): Promise<void>;
}

export interface RequestSpan {
  /** Calls `work`. The spans that `work` starts become children of this span. */
  run(work: () => void): void;
  /** @param route the template of the path, such as `/v1/sessions/{id}` @param status undefined if no response was sent */
  end(route: string | undefined, status: number | undefined): void;
}

/** Attributes must never contain payloads, credentials, or ids of players. */
export interface NewSpan {
  readonly name: string;
  readonly kind: 'client' | 'consumer' | 'producer';
  readonly attributes: Readonly<Record<string, string | number>>;
}

/** Record header with the trace context of the append (W3C Trace Context). Only records of sampled requests have the header. */
export const TRACEPARENT_HEADER = 'traceparent';

/**
 * Maximum number of traces per batch that get a span for the work on the batch. A span that belongs to the whole batch has a
 * link to each of these traces.
 */
export const MAX_TRACES_PER_BATCH = 32;

export interface BatchSource {
  readonly group: string;
  readonly topic: string;
  readonly partition: number;
}

/** Runs `work`, which processes the records. Starts a span for the work in the trace of each record. */
export function processInTraces<T>(
  tracing: Tracing | undefined,
  { group, topic, partition }: BatchSource,
  records: readonly LogRecord[],
  work: () => Promise<T>,
): Promise<T> {
  if (tracing === undefined) return work();
  const traceparents = new Set<string>();
  for (const { headers } of records) {
    const traceparent = headers[TRACEPARENT_HEADER];
    if (traceparent !== undefined) traceparents.add(traceparent);
    if (traceparents.size === MAX_TRACES_PER_BATCH) break;
  }
  if (traceparents.size === 0) return work();
  const attributes = {
    ...messagingAttributes('process', topic, partition, records.length),
    'messaging.consumer.group.name': group,
  };
  return tracing.inTraces(
    { name: `process ${topic}`, kind: 'consumer', attributes },
    [...traceparents],
    work,
  );
}

/** Returns the attributes of OpenTelemetry's semantic conventions for messaging. */
export function messagingAttributes(
  operation: 'append' | 'process',
  topic: string,
  partition: number,
  records: number,
): NewSpan['attributes'] {
  return {
    'messaging.system': 'kafka',
    'messaging.operation.name': operation,
    'messaging.operation.type': operation === 'append' ? 'send' : operation,
    'messaging.destination.name': topic,
    'messaging.destination.partition.id': String(partition),
    'messaging.batch.message_count': records,
  };
}
