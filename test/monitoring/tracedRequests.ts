/** Sends traced requests to a running Questlog, and checks the traces that arrive at a Collector. */
import { randomBytes, randomUUID } from 'node:crypto';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { expect } from 'vitest';
import { anEvent, aProject, eventually, type Reached } from '../e2e/builders.ts';
import type { Collector, Span } from './collector.ts';

const EXPORTED_WITHIN_MS = 60_000;
const CLIENT_SPAN_ID = '00f067aa0ba902b7';
const [SERVER, CLIENT, PRODUCER, CONSUMER] = [2, 3, 4, 5];
const { events: EVENTS, linkedEvents: LINKS } = TOPICS;

/** Environment of every process. The sampler would drop the requests if it followed the flag of the clients. */
export function tracedEnvironment({ endpoint }: Pick<Collector, 'endpoint'>): Record<string, string> {
  return { OTEL_TRACES_EXPORTER: 'otlp', OTEL_EXPORTER_OTLP_ENDPOINT: endpoint };
}

/** Name of each service in its spans. */
type ServiceNames = Readonly<Record<'ingest' | 'linker' | 'projector', string>>;

export async function checkTraces(
  product: Reached,
  collector: Collector,
  services: ServiceNames,
): Promise<void> {
  const marker = `marker${randomUUID()}`;
  const project = await aProject(product, { revision: 'B' });
  const sessionId = await project.session({ player: { externalId: marker, deviceId: marker } });
  const report = { sessionId, clientRequestId: randomUUID(), report: { title: marker }, context: {} };
  expect((await project.report(report)).status).toBe(201);
  const post = async (traceId: string): Promise<void> => {
    const event = anEvent({ sessionId, payload: { marker } });
    const traceparent = `00-${traceId}-${CLIENT_SPAN_ID}-00`;
    const headers = { traceparent, tracestate: `vendor=${marker}`, baggage: `player=${marker}` };
    expect((await project.post([event], headers)).status).toBe(201);
  };
  let traceId = '';
  const traceOf = () => collector.spans().filter((span) => span.traceId === traceId);
  // The linker links events at once only after it has looked up the earlier events of the report.
  const postAgain = async (): Promise<string> => {
    traceId = aTraceId();
    await post(traceId);
    await eventually(async () => drawn(traceOf()), includes('INSERT events'), EXPORTED_WITHIN_MS);
    return drawn(traceOf());
  };
  await eventually(postAgain, includes(`append ${LINKS}`), EXPORTED_WITHIN_MS);
  // Requests at the same time share a block, because the projector waits between two blocks.
  const together = Array.from({ length: 8 }, aTraceId);
  await Promise.all(together.map(post));
  await project.get(`/v1/players/${marker}/sessions`);

  await eventually(async () => drawn(traceOf()), includes(`process ${LINKS}`), EXPORTED_WITHIN_MS);
  await eventually(
    async () => linkedInserts(collector.spans(), together).length,
    (count) => count > 0,
    EXPORTED_WITHIN_MS,
  );
  const names = async () => collector.spans().map(({ name }) => name);
  await eventually(
    names,
    (all) => all.some((name) => name.startsWith('GET /v1/players/{')),
    EXPORTED_WITHIN_MS,
  );
  const trace = traceOf();
  console.log(drawn(trace));
  checkPath(trace, services);

  const [of] = linkedInserts(collector.spans(), together);
  const linkedTo = new Set(of?.links?.map((link) => link.traceId));
  expect(linkedTo.has(of?.traceId ?? '')).toBe(false);
  for (const each of linkedTo) expect(together).toContain(each);
  // The marker is in the payload, the player, the baggage, and the trace state.
  for (const secret of [marker, project.token, sessionId]) expect(collector.text()).not.toContain(secret);
}

function checkPath(trace: readonly Span[], services: ServiceNames): void {
  const { ingest, linker, projector } = services;
  const route = 'POST /v1/ingest/events';
  const request = childOf(trace, CLIENT_SPAN_ID, { name: route, kind: SERVER, service: ingest });
  expect(valuesOf(request)).toMatchObject({
    'http.request.method': 'POST',
    'http.route': '/v1/ingest/events',
    'http.response.status_code': '201',
  });
  const append = childOf(trace, request.spanId, {
    name: `append ${EVENTS}`,
    kind: PRODUCER,
    service: ingest,
  });
  expect(valuesOf(append)).toMatchObject({
    'messaging.destination.name': EVENTS,
    'messaging.operation.type': 'send',
  });
  const process = { name: `process ${EVENTS}`, kind: CONSUMER };
  const projected = childOf(trace, append.spanId, {
    ...process,
    ...{ service: projector, group: GROUPS.projectEvents },
  });
  const insert = childOf(trace, projected.spanId, {
    name: 'INSERT events',
    kind: CLIENT,
    service: projector,
  });
  expect(valuesOf(insert)).toMatchObject({ 'db.system.name': 'clickhouse', 'db.collection.name': 'events' });
  const linked = childOf(trace, append.spanId, { ...process, service: linker, group: GROUPS.link });
  const links = childOf(trace, linked.spanId, { name: `append ${LINKS}`, kind: PRODUCER, service: linker });
  childOf(trace, links.spanId, {
    ...{ name: `process ${LINKS}`, kind: CONSUMER },
    ...{ service: projector, group: GROUPS.projectLinks },
  });
}

function includes(name: string): (tree: string) => boolean {
  return (tree) => tree.includes(name);
}

function linkedInserts(spans: readonly Span[], traceIds: readonly string[]): Span[] {
  const own = spans.filter(({ name, traceId }) => name === 'INSERT events' && traceIds.includes(traceId));
  return own.filter(({ links = [] }) => links.length > 0);
}

interface Wanted {
  readonly name: string;
  readonly kind: number | undefined;
  readonly service: string;
  /** Group of a consumer. In one process, the linker and the projector have the same service name. */
  readonly group?: string;
}

function childOf(trace: readonly Span[], parentId: string, { name, kind, service, group }: Wanted): Span {
  const found = trace.find(
    (span) =>
      span.parentSpanId === parentId &&
      span.name === name &&
      span.service === service &&
      valuesOf(span)['messaging.consumer.group.name'] === group,
  );
  if (found === undefined) throw new Error(`${parentId} has no child ${name} of ${service}: ${drawn(trace)}`);
  expect(found.kind).toBe(kind);
  return found;
}

function valuesOf({ attributes = [] }: Span): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}

/** Returns the spans of a trace as an indented list. */
function drawn(trace: readonly Span[], parentId = CLIENT_SPAN_ID, indent = ''): string {
  return trace
    .filter((span) => span.parentSpanId === parentId)
    .map((span) => `${indent}${span.name} (${span.service})\n${drawn(trace, span.spanId, `${indent}  `)}`)
    .join('');
}

function aTraceId(): string {
  return randomBytes(16).toString('hex');
}
