/** Implements `Tracing` with OpenTelemetry's SDK. This module is loaded only if tracing is on. */
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Context,
  DiagLogLevel,
  diag,
  type Link,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { parseTraceParent, setGlobalErrorHandler } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOnSampler,
  BatchSpanProcessor,
  SamplingDecision,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { steadyClock } from '../process/clock.ts';
import { messageOf } from '../process/errors.ts';
import type { Logger } from '../process/logger.ts';
import { withinLimit } from '../process/waiting.ts';
import type { NewSpan, RequestSpan, Tracing } from './tracing.ts';
import type { TracingOptions } from './tracingSettings.ts';

export interface TracedService {
  /** Name of the service, unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` contains another name. */
  readonly name: string;
  readonly version: string;
}

/**
 * Time limit of `close`, because the process must stop in time even if the Collector does not answer. `flush` has already
 * exported most spans when `close` is called.
 */
const CLOSE_LIMIT_MS = 500;
const WARNING_INTERVAL_MS = 60_000;

export function openTracing(options: TracingOptions, service: TracedService, logger: Logger): Tracing {
  reportTo(logger);
  const own = resourceFromAttributes({ 'service.name': service.name, 'service.version': service.version });
  const resource = own.merge(detectResources({ detectors: [envDetector] }));
  const processor = new BatchSpanProcessor({ exporter: new OTLPTraceExporter() });
  return new OpenTelemetryTracing(
    options,
    new TracerProvider({ ...PROVIDER, resource, spanProcessors: [processor] }),
  );
}

/** Returns an adapter that passes each ended span to the processor. Used by tests. */
export function tracingTo(options: TracingOptions, processor: SpanProcessor): Tracing {
  return new OpenTelemetryTracing(options, new TracerProvider({ ...PROVIDER, spanProcessors: [processor] }));
}

/** The provider samples every span, because unsampled requests start no spans. */
const PROVIDER = { sampler: new AlwaysOnSampler() };

/**
 * Logs problems of OpenTelemetry's libraries at most once per interval. Without this limit, an outage of the Collector would
 * fill the log.
 */
function reportTo(logger: Logger): void {
  let nextMs = Number.NEGATIVE_INFINITY;
  const report = (cause: string): void => {
    if (steadyClock.now() < nextMs) return;
    nextMs = steadyClock.now() + WARNING_INTERVAL_MS;
    logger.warn('traces_not_exported', { cause });
  };
  const ignore = (): void => {};
  diag.setLogger(
    { error: report, warn: report, info: ignore, debug: ignore, verbose: ignore },
    DiagLogLevel.WARN,
  );
  setGlobalErrorHandler((error) => report(messageOf(error)));
}

interface Current {
  readonly span: Span;
  /** Links that every child of the span gets. The links lead to the spans of the same batch in other traces. */
  readonly links: Link[];
}

class OpenTelemetryTracing implements Tracing {
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;
  readonly #options: TracingOptions;
  readonly #byTraceId: TraceIdRatioBasedSampler;
  readonly #current = new AsyncLocalStorage<Current | undefined>();

  constructor(options: TracingOptions, provider: TracerProvider) {
    this.#provider = provider;
    this.#tracer = provider.getTracer('questlog');
    this.#options = options;
    this.#byTraceId = new TraceIdRatioBasedSampler(options.ratio);
  }

  startRequest(method: string, traceparent: string | undefined): RequestSpan | undefined {
    // An untrusted client must not influence the sampling decision. Therefore, the decision ignores the client's sampled flag
    // and trace id.
    const trusted = this.#options.trustsSampling ? parentOf(traceparent) : undefined;
    if (!this.#isSampled(trusted)) return undefined;
    const parent = trusted ?? parentOf(traceparent);
    const attributes = { 'http.request.method': method, 'url.scheme': 'http' };
    const span = this.#tracer.startSpan(method, { kind: SpanKind.SERVER, attributes }, contextOf(parent));
    return {
      run: (work) => this.#current.run({ span, links: [] }, work),
      end: (route, status) => {
        if (route !== undefined) span.updateName(`${method} ${route}`).setAttribute('http.route', route);
        if (status !== undefined) span.setAttribute('http.response.status_code', status);
        if (status === undefined || status >= 500) setError(span, String(status ?? 'aborted'));
        span.end();
      },
    };
  }

  #isSampled(parent: SpanContext | undefined): boolean {
    const { ratio, isParentBased } = this.#options;
    if (parent === undefined) return Math.random() < ratio;
    if (isParentBased) return isSampled(parent);
    return (
      this.#byTraceId.shouldSample(ROOT_CONTEXT, parent.traceId).decision !== SamplingDecision.NOT_RECORD
    );
  }

  isActive(): boolean {
    return this.#running() !== undefined;
  }

  traceId(): string | undefined {
    return this.#running()?.span.spanContext().traceId;
  }

  /** Background work that a request started can outlive the request's span. Such work gets no spans. */
  #running(): Current | undefined {
    const current = this.#current.getStore();
    return current?.span.isRecording() === true ? current : undefined;
  }

  inSpan<T>(start: NewSpan, work: (traceparent: string | undefined) => Promise<T>): Promise<T> {
    const parent = this.#running();
    if (parent === undefined) return work(undefined);
    const span = this.#start(start, trace.setSpan(ROOT_CONTEXT, parent.span), parent.links);
    const { traceId, spanId } = span.spanContext();
    return this.#run({ span, links: [] }, [span], () => work(`00-${traceId}-${spanId}-01`));
  }

  inTraces<T>(start: NewSpan, traceparents: readonly string[], work: () => Promise<T>): Promise<T> {
    const [first, ...others] = traceparents.flatMap((one) => {
      const parent = parentOf(one);
      return parent !== undefined && isSampled(parent) ? [parent] : [];
    });
    if (first === undefined) return work();
    const span = this.#start(start, contextOf(first), []);
    const toFirst = [{ context: span.spanContext() }];
    const spans = others.map((parent) => this.#start(start, contextOf(parent), toFirst));
    const links = spans.map((one) => ({ context: one.spanContext() }));
    return this.#run({ span, links }, [span, ...spans], work);
  }

  #start({ name, kind, attributes }: NewSpan, parent: Context, links: Link[]): Span {
    return this.#tracer.startSpan(name, { kind: KINDS[kind], attributes, links }, parent);
  }

  /**
   * Returns the promise of the work and no new promise. An `async` function would return a new promise, which can resolve later
   * than the promise of the work. The promises of appends must resolve in the order of their offsets.
   */
  #run<T>(current: Current, spans: readonly Span[], work: () => Promise<T>): Promise<T> {
    const result = this.#current.run(current, work);
    const end = (): void => {
      for (const span of spans) span.end();
    };
    result.then(end, (error: unknown) => {
      // Records only the name, because an error's message can contain a part of a payload.
      for (const span of spans) setError(span, error instanceof Error ? error.name : '_OTHER');
      end();
    });
    return result;
  }

  flush(): void {
    this.#provider.forceFlush().catch(() => undefined);
  }

  async close(): Promise<void> {
    await withinLimit(this.#provider.shutdown(), CLOSE_LIMIT_MS, () => undefined).catch(() => undefined);
  }
}

const KINDS = { client: SpanKind.CLIENT, consumer: SpanKind.CONSUMER, producer: SpanKind.PRODUCER } as const;

function isSampled({ traceFlags }: SpanContext): boolean {
  return (traceFlags & TraceFlags.SAMPLED) !== 0;
}

/** Parses the header `traceparent`. Ignores the header `tracestate`, because clients can write any text into it. */
function parentOf(traceparent: string | undefined): SpanContext | undefined {
  const parent = traceparent === undefined ? null : parseTraceParent(traceparent);
  return parent === null ? undefined : { ...parent, isRemote: true };
}

function contextOf(parent: SpanContext | undefined): Context {
  return parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent);
}

function setError(span: Span, type: string): void {
  span.setAttribute('error.type', type).setStatus({ code: SpanStatusCode.ERROR });
}
