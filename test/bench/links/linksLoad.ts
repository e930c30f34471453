/** Sends events and reports over HTTP at full speed; keeps the responses unparsed until the load has ended. */
import { type Connections, openConnections, type Reply } from '../connections.ts';
import type { Telemetry } from '../telemetry.ts';

export interface LinksLoad {
  readonly events: number;
  readonly reports: number;
  readonly sessions: readonly string[];
}

export interface LoadAnswers {
  /** Response bodies in the order of arrival. */
  readonly events: readonly Buffer[];
  readonly reports: readonly FiledReport[];
  /** Seconds until the last event was answered. */
  readonly eventsS: number;
  /** Seconds until the last report was answered, and that time by `performance.now()`. */
  readonly loadedS: number;
  readonly loadedAtMs: number;
}

export interface FiledReport {
  readonly named: readonly string[];
  readonly answer: Buffer;
}

const BATCH = 500;
const CONNECTIONS = 8;
const IDS_A_REPORT = 5;
const ID_FIELD = '{"id":"';
const ID_CHARACTERS = 36;

/** Sends the load. Half of the reports name a session, the others name events that were answered just before. */
export async function loadLinks(
  baseUrl: string,
  token: string,
  telemetry: Telemetry,
  load: LinksLoad,
): Promise<LoadAnswers> {
  const ofEvents = openConnections(baseUrl, token, CONNECTIONS);
  // The agent keeps this number of requests in flight and queues the others.
  const ofReports = openConnections(baseUrl, token, CONNECTIONS);
  const events: Buffer[] = [];
  const reports: Promise<FiledReport>[] = [];
  const startedAtMs = performance.now();
  const requests = Math.ceil(load.events / BATCH);
  await ofEvents.each(requests, async (i) => {
    const body = telemetry.batch(Math.min(BATCH, load.events - i * BATCH), load.sessions);
    const answer = await send(ofEvents, '/v1/ingest/events', body);
    events.push(answer);
    const due = Math.floor((events.length / requests) * load.reports);
    while (reports.length < due) reports.push(fileReport(ofReports, telemetry, load, answer, reports.length));
  });
  const eventsS = (performance.now() - startedAtMs) / 1000;
  const filed = await Promise.all(reports);
  const loadedAtMs = performance.now();
  ofEvents.close();
  ofReports.close();
  const loadedS = (loadedAtMs - startedAtMs) / 1000;
  return { events, reports: filed, eventsS, loadedS, loadedAtMs };
}

async function fileReport(
  connections: Connections,
  { random }: Telemetry,
  { sessions }: LinksLoad,
  recent: Buffer,
  number: number,
): Promise<FiledReport> {
  if (number % 2 === 0) {
    const sessionId = sessions[random.between(0, sessions.length - 1)] ?? '';
    return { named: [], answer: await send(connections, '/v1/ingest/reports', asJson({ sessionId })) };
  }
  const named = new Set<string>();
  while (named.size < IDS_A_REPORT) named.add(anId(recent, random.between(0, recent.length - 1)));
  const eventIds = [...named];
  return { named: eventIds, answer: await send(connections, '/v1/ingest/reports', asJson({ eventIds })) };
}

/** Returns the id of an event near the position, from the bytes of the response. */
function anId(answer: Buffer, position: number): string {
  const at = answer.lastIndexOf(ID_FIELD, position);
  const start = Math.max(at, answer.indexOf(ID_FIELD)) + ID_FIELD.length;
  return answer.toString('latin1', start, start + ID_CHARACTERS);
}

async function send(connections: Connections, path: string, body: Buffer): Promise<Buffer> {
  const reply: Reply = await connections.send('POST', path, body);
  if (reply.status !== 201) throw new Error(`${path} was answered ${reply.status}: ${reply.body}`);
  return reply.body;
}

function asJson(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}
