/** Runs the phases of the load benchmark over HTTP: register sessions, send events, read events. */
import type { Connections, Reply } from '../connections.ts';
import type { Telemetry } from '../telemetry.ts';
import type { LoadOptions } from './loadOptions.ts';

export async function registerSessions(connections: Connections, count: number): Promise<string[]> {
  const ids: string[] = [];
  await connections.each(count, async () => {
    const reply = await connections.send('POST', '/v1/ingest/sessions', Buffer.from('{}'));
    expectStatus(reply, 201);
    const session: { id: string } = JSON.parse(reply.body.toString());
    ids.push(session.id);
  });
  return ids;
}

export interface Loaded {
  readonly requestBytes: number;
  /** Id of a random event of each request. */
  readonly ids: readonly string[];
}

/** @param onShare called with the answered share of the requests after each hundredth */
export async function loadEvents(
  connections: Connections,
  telemetry: Telemetry,
  sessions: readonly string[],
  { events, batch }: LoadOptions,
  onShare: (share: number) => void,
): Promise<Loaded> {
  const requests = Math.ceil(events / batch);
  const step = Math.ceil(requests / 100);
  const ids: string[] = [];
  let requestBytes = 0;
  await connections.each(requests, async (i) => {
    const body = telemetry.batch(Math.min(batch, events - i * batch), sessions);
    requestBytes += body.length;
    const reply = await connections.send('POST', '/v1/ingest/events', body);
    expectStatus(reply, 201);
    ids.push(someId(reply.body, telemetry));
    if (ids.length % step === 0) onShare(ids.length / requests);
  });
  return { requestBytes, ids };
}

/** Returns the latencies of `count` reads of random ids, in milliseconds, ascending. */
export async function readBack(
  connections: Connections,
  { random }: Telemetry,
  ids: readonly string[],
  count: number,
): Promise<number[]> {
  const millis: number[] = [];
  for (let i = 0; i < count; i++) {
    const id = ids[random.between(0, ids.length - 1)] ?? '';
    const startedAtMs = performance.now();
    const reply = await connections.send('GET', `/v1/events/${id}`);
    millis.push(performance.now() - startedAtMs);
    expectStatus(reply, 200);
    if (!reply.body.includes(id)) throw new Error(`GET of ${id} answered another event`);
  }
  return millis.sort((a, b) => a - b);
}

export function percentile(ascending: readonly number[], share: number): number {
  return ascending[Math.min(ascending.length - 1, Math.floor(ascending.length * share))] ?? Number.NaN;
}

const ID_FIELD = '{"id":"';
const ID_CHARACTERS = 36;

/** Returns an id from the bytes of the response. Parsing every response would make the client the bottleneck. */
function someId(answer: Buffer, { random }: Telemetry): string {
  const at = answer.lastIndexOf(ID_FIELD, random.between(0, answer.length - 1));
  const start = Math.max(at, answer.indexOf(ID_FIELD)) + ID_FIELD.length;
  return answer.toString('latin1', start, start + ID_CHARACTERS);
}

function expectStatus({ status, body }: Reply, expected: number): void {
  if (status !== expected) throw new Error(`answered ${status} instead of ${expected}: ${body}`);
}
