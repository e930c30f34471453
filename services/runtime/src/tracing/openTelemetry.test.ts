import {
  BatchSpanProcessor,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Store } from '../clickhouse/store.ts';
import { aLog, topicSpec } from '../log/embedded/testing/testLog.ts';
import type { Log, LogRecord } from '../log/log.ts';
import { Unavailable } from '../process/errors.ts';
import { tracingTo } from './openTelemetry.ts';
import { traceEngines } from './traceEngines.ts';
import { MAX_TRACES_PER_BATCH, type NewSpan, processInTraces, type Tracing } from './tracing.ts';
import type { TracingOptions } from './tracingSettings.ts';

const TRACE_ID = '00000000000000000000000000000001';
const CLIENT_SPAN_ID = '00000000000000aa';
const SAMPLED = `00-${TRACE_ID}-${CLIENT_SPAN_ID}-01`;
const NOT_SAMPLED = `00-${TRACE_ID}-${CLIENT_SPAN_ID}-00`;
const ALL: TracingOptions = { ratio: 1, isParentBased: false, trustsSampling: false };
const WORK: NewSpan = { name: 'work', kind: 'client', attributes: {} };

test('neither the flag nor the trace id of a client decides whether a request is sampled', () => {
  const off = aTracing({ ratio: 0, isParentBased: true });
  expect(off.tracing.startRequest('POST', SAMPLED)).toBeUndefined();

  // A decision by the trace id would select all of these requests, because they have the same low trace id.
  const half = aTracing({ ratio: 0.5 });
  const sampled = Array.from({ length: 1_000 }, () => half.tracing.startRequest('POST', SAMPLED));
  const selected = sampled.filter((span) => span !== undefined).length;
  expect(selected).toBeGreaterThan(0);
  expect(selected).toBeLessThan(1_000);

  const on = aTracing({ ratio: 1, isParentBased: true });
  expect(on.tracing.startRequest('POST', NOT_SAMPLED)).toBeDefined();
});

test('with a trusted flag, a parent-based sampler follows the flag, and another sampler the trace id', () => {
  const trustsSampling = true;
  const parentBased = aTracing({ ratio: 0, isParentBased: true, trustsSampling });
  expect(parentBased.tracing.startRequest('POST', SAMPLED)).toBeDefined();
  expect(parentBased.tracing.startRequest('POST', NOT_SAMPLED)).toBeUndefined();
  expect(parentBased.tracing.startRequest('POST', undefined)).toBeUndefined();
  const byTraceId = aTracing({ ratio: 0.5, trustsSampling });
  expect(byTraceId.tracing.startRequest('POST', NOT_SAMPLED)).toBeDefined();
  const high = `00-${'0'.repeat(24)}ffffffff-${CLIENT_SPAN_ID}-01`;
  expect(byTraceId.tracing.startRequest('POST', high)).toBeUndefined();
});

test.each(['', 'x', '00-0-0-01', `00-${'0'.repeat(32)}-${CLIENT_SPAN_ID}-01`])(
  'the invalid traceparent %j starts a new trace',
  (traceparent) => {
    const { tracing, spans } = aTracing();
    tracing.startRequest('POST', traceparent)?.end('/v1', 200);
    expect(spans()[0]?.parentSpanContext).toBeUndefined();
  },
);

test('a trace leads from the request through the header of the record to the work of a consumer', async () => {
  const { tracing, spans } = aTracing();
  const { log, store } = traceEngines({ log: await aLog(), store: STORE }, tracing);
  await log.ensureTopics([topicSpec('t')]);
  await inRequest(tracing, SAMPLED, async () => {
    expect(tracing.traceId()).toBe(TRACE_ID);
    await log.append('t', 0, [{ key: null, value: Buffer.from('1'), headers: { own: 'kept' } }]);
  });
  await log.append('t', 0, [{ key: null, value: Buffer.from('2') }]);
  const records = await recordsOf(log);
  expect(records.map(({ headers }) => Object.keys(headers))).toEqual([['own', 'traceparent'], []]);
  await processInTraces(tracing, { group: 'g', topic: 't', partition: 0 }, records, () =>
    store.insert(INSERT),
  );

  const byName = Object.fromEntries(spans().map((span) => [span.name, span]));
  const path = ['POST /v1/events', 'append t', 'process t', 'INSERT events'].map((name) => byName[name]);
  expect(path.map((span) => span?.spanContext().traceId)).toEqual(path.map(() => TRACE_ID));
  expect(path.map((span) => span?.parentSpanContext?.spanId)).toEqual([
    CLIENT_SPAN_ID,
    ...path.slice(0, -1).map((span) => span?.spanContext().spanId),
  ]);
});

// Ingest mistook the late result of a traced append for a truncation of the log.
test('a traced append does not resolve after a later append without a trace', async () => {
  const { tracing } = aTracing();
  const { log } = traceEngines({ log: await aLog(), store: STORE }, tracing);
  await log.ensureTopics([topicSpec('t')]);
  const offsets: number[] = [];
  const append = async (): Promise<void> => {
    const { baseOffset } = await log.append('t', 0, [{ key: null, value: Buffer.from('1') }]);
    offsets.push(baseOffset);
  };
  await Promise.all([inRequest(tracing, SAMPLED, append), append(), append()]);
  expect(offsets).toEqual([0, 1, 2]);
});

test('a record at the limit of its topic is appended without the header', async () => {
  const { tracing } = aTracing();
  const { log } = traceEngines({ log: await aLog(), store: STORE }, tracing);
  const maxRecordBytes = 1024 * 1024;
  await log.ensureTopics([topicSpec('t', { maxRecordBytes })]);
  await inRequest(tracing, SAMPLED, async () => {
    await log.append('t', 0, [{ key: null, value: Buffer.alloc(maxRecordBytes) }]);
  });
  const [record] = await recordsOf(log);
  expect(record?.headers).toEqual({});
});

test('a batch of many traces has a bounded number of spans, and its work links to all of them', async () => {
  const { tracing, spans } = aTracing();
  const records = Array.from({ length: MAX_TRACES_PER_BATCH + 5 }, (_, i) => aRecord(i + 1));
  await processInTraces(tracing, { group: 'g', topic: 't', partition: 3 }, records, () =>
    tracing.inSpan(WORK, async () => undefined),
  );
  const ofTraces = spans().filter(({ name }) => name === 'process t');
  const [work] = spans().filter(({ name }) => name === 'work');
  expect(ofTraces).toHaveLength(MAX_TRACES_PER_BATCH);
  const [first, ...others] = ofTraces.map((span) => span.spanContext());
  expect(work?.parentSpanContext?.spanId).toBe(first?.spanId);
  expect(work?.links.map(({ context }) => context.spanId)).toEqual(others.map(({ spanId }) => spanId));
  expect(ofTraces[1]?.links.map(({ context }) => context.spanId)).toEqual([first?.spanId]);
});

test('records of a foreign producer whose trace is not sampled get no spans', async () => {
  const { tracing, spans } = aTracing();
  const records = [{ ...aRecord(1), headers: { traceparent: NOT_SAMPLED } }];
  await processInTraces(tracing, { group: 'g', topic: 't', partition: 0 }, records, async () => undefined);
  expect(spans()).toEqual([]);
});

test('a failed span has the name of the error and not its message, which can contain a payload', async () => {
  const { tracing, spans } = aTracing();
  const failing = inRequest(tracing, undefined, () =>
    tracing.inSpan(WORK, () => Promise.reject(new Unavailable('payload'))),
  );
  await expect(failing).rejects.toThrow('payload');
  const [work] = spans();
  expect(work?.attributes['error.type']).toBe('Unavailable');
  expect(work?.status.message).toBeUndefined();
  expect(work?.events).toEqual([]);
});

test('work that a request starts in the background gets no spans after the request has ended', async () => {
  const { tracing, spans } = aTracing();
  const ended = Promise.withResolvers<void>();
  let background: Promise<void> | undefined;
  const span = tracing.startRequest('POST', undefined);
  span?.run(() => {
    background = ended.promise.then(() => tracing.inSpan(WORK, async () => undefined));
  });
  span?.end('/v1/events', 201);
  ended.resolve();
  await background;
  expect(spans().map(({ name }) => name)).toEqual(['POST /v1/events']);
});

test('a transaction of a consumer continues the trace', async () => {
  const { tracing, spans } = aTracing();
  const { log } = traceEngines({ log: await aLog(), store: STORE }, tracing);
  await log.ensureTopics([topicSpec('t')]);
  const producer = await log.transactionalProducer('p');
  const appends = [{ topic: 't', partition: 0, records: [{ key: null, value: Buffer.from('1') }] }];
  await processInTraces(tracing, { group: 'g', topic: 's', partition: 0 }, [aRecord(1)], async () => {
    await producer.commit({ appends });
  });
  const [append, process] = spans();
  const { traceId, spanId } = append?.spanContext() ?? {};
  expect(append?.parentSpanContext?.spanId).toBe(process?.spanContext().spanId);
  const [record] = await recordsOf(log);
  expect(record?.headers).toEqual({ traceparent: `00-${traceId}-${spanId}-01` });
});

test('the spans are exported while the services stop, not only at the end', async () => {
  const exporter = new InMemorySpanExporter();
  const tracing = tracingTo(ALL, new BatchSpanProcessor({ exporter, scheduledDelayMillis: 3_600_000 }));
  tracing.startRequest('POST', undefined)?.end('/v1/events', 201);
  tracing.flush();
  await expect.poll(() => exporter.getFinishedSpans()).toHaveLength(1);
});

test('a stop waits at most 500 ms for a collector that does not answer', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const never = () => new Promise<void>(() => undefined);
  const unanswered = { forceFlush: never, shutdown: never, onStart: () => {}, onEnd: () => {} };
  const tracing = tracingTo(ALL, unanswered);
  const onClosed = vi.fn();
  void tracing.close().then(onClosed);
  await vi.advanceTimersByTimeAsync(500);
  expect(onClosed).toHaveBeenCalledOnce();
});

const INSERT = { table: 'events', columns: ['a'], rows: Buffer.alloc(1) };
const STORE: Store = {
  database: 'questlog',
  insertsEndWithinMs: 0,
  query: async () => [],
  queryRaw: () => Promise.reject(new Error('not used')),
  stream: () => Promise.reject(new Error('not used')),
  command: async () => undefined,
  insert: async () => undefined,
  ping: async () => true,
  close: async () => undefined,
};

async function recordsOf(log: Log): Promise<LogRecord[]> {
  const records: LogRecord[] = [];
  const onBatch: Parameters<Log['tail']>[0]['onBatch'] = (batch) => void records.push(...batch.records);
  const tail = await log.tail({ topic: 't', from: 'earliest', onBatch });
  await tail.waitForOffsets(await log.endOffsets('t'));
  await tail.close();
  return records;
}

function aTracing(options: Partial<TracingOptions> = {}) {
  const exporter = new InMemorySpanExporter();
  const tracing = tracingTo({ ...ALL, ...options }, new SimpleSpanProcessor({ exporter }));
  return { tracing, spans: (): ReadableSpan[] => exporter.getFinishedSpans() };
}

async function inRequest(tracing: Tracing, traceparent: string | undefined, work: () => Promise<void>) {
  const span = tracing.startRequest('POST', traceparent);
  let done: Promise<void> | undefined;
  span?.run(() => {
    done = work();
  });
  await done?.finally(() => span?.end('/v1/events', 201));
}

function aRecord(n: number) {
  const traceparent = `00-${String(n).padStart(32, '0')}-${CLIENT_SPAN_ID}-01`;
  return { offset: n, timestampMs: 0, key: null, value: null, headers: { traceparent } };
}
