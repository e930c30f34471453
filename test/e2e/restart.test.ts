/**
 * Tests a stop under load, a restart, and a kill of one product. Credentials, acknowledged events, sessions, quotas, idempotency
 * keys, and bug reports survive.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  aKey,
  anEvent,
  anUnknownId,
  aProject,
  events,
  eventually,
  onto,
  type TestProject,
} from './builders.ts';
import { type Answer, bugsIn, type Product, removeDataDir, startProduct } from './product.ts';

const STOPS_WITHIN_MS = 20_000;
const RECOVERED_WITHIN_MS = 45_000;
const START_WITHIN_MS = 120_000;

let product: Product;

async function restart(): Promise<void> {
  product = await startProduct({ dataDir: product.dataDir });
}

afterAll(async () => {
  expect(await product.stop()).toBe(0);
  expect(bugsIn(product.stderr())).toEqual([]);
  await removeDataDir(product);
});

describe('a stop under load, and the next start', () => {
  let before: Product;
  let game: TestProject;
  let busy: TestProject;
  let posted: Answer;
  let session: Answer;
  let stopped: { status: number | null; withinMs: number; isStreamDone: boolean };
  const acknowledged: string[] = [];
  const key = aKey();
  const lenient = { Prefer: 'handling=lenient', 'Idempotency-Key': aKey() };
  const late = anUnknownId();
  let lenientBody: object[];
  let firstLenient: Answer;

  beforeAll(async () => {
    before = await startProduct();
    product = before;
    game = await aProject(before, { revision: 'A', monthlySoftQuota: 8 });
    busy = await aProject(before, { revision: 'A' });
    session = await game.request('POST', '/v1/ingest/sessions', { body: { buildId: anUnknownId() } });
    posted = await game.post(events(5, { sessionId: game.sessionId }), { 'Idempotency-Key': key });
    lenientBody = [anEvent({ sessionId: game.sessionId }), anEvent({ sessionId: late })];
    firstLenient = await game.post(lenientBody, lenient);
    stopped = await stopUnderLoad(before, busy, acknowledged);
    forgetReader(before.dataDir);
    await restart();
    game = onto(game, product);
  }, START_WITHIN_MS);

  test('stops with status 0 within 20 s on SIGTERM', () => {
    expect(stopped.status).toBe(0);
    expect(stopped.withinMs).toBeLessThan(STOPS_WITHIN_MS);
    expect(bugsIn(before.stderr())).toEqual([]);
  });

  test('ends open streams cleanly', () => {
    expect(stopped.isStreamDone).toBe(true);
  });

  test('stores every acknowledged event once', async () => {
    expect(acknowledged.length).toBeGreaterThanOrEqual(800);
    await expectStoredOnce(onto(busy, product), acknowledged);
  });

  test('keeps the credentials and the demo', async () => {
    const { baseUrl: _, adminUrl: __, ...kept } = before.credentials;

    expect(product.credentials).toMatchObject({ ...kept, clickhouse: expect.any(Object) });
    // Checks that the URL of ClickHouse is the same, because BI tools store this URL.
    expect(product.credentials.clickhouse.url).toBe(before.credentials.clickhouse.url);
    expect(product.credentials.clickhouse.reader).toMatchObject({
      username: 'reader',
      password: expect.any(String),
    });
    expect((await product.request('GET', '/v1/quota')).status).toBe(200);
    expect((await product.admin('GET', '/admin/tenants')).json()).toHaveLength(3);
  });

  test('keeps the bytes of sessions and events', async () => {
    const { id } = session.json();
    expect((await game.get(`/v1/sessions/${id}`)).json()).toMatchObject(session.json());
    const again = await game.request('POST', '/v1/ingest/sessions', {
      body: { id, buildId: session.json().buildId },
    });
    expect([again.status, again.text()]).toEqual([200, session.text()]);
    const page = await game.get(`/v1/sessions/${game.sessionId}/events`);

    expect(page.json().events).toEqual([...posted.json(), firstLenient.json()[0]]);
  });

  test('knows earlier keys: the same body is a replay, another body gets a 422', async () => {
    const again = await game.post(events(5, { sessionId: game.sessionId }), { 'Idempotency-Key': key });

    expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([200, 'true']);
    expect(again.text()).toBe(posted.text());
    const other = await game.post(events(4, { sessionId: game.sessionId }), { 'Idempotency-Key': key });
    expect(other.status).toBe(422);
  });

  test('stores now-valid elements of a repeated lenient request, and counts its quota exactly', async () => {
    expect(firstLenient.json()).toMatchObject([{ overQuota: false }, { status: 404 }]);
    await game.session({ id: late });
    const again = await game.post(lenientBody, lenient);

    expect(again.json()).toEqual([
      firstLenient.json()[0],
      expect.objectContaining({ sessionId: late, overQuota: false }),
    ]);
    expect((await game.get('/v1/quota')).json().used).toBe(7);
    const flags = (await game.post(events(3, { sessionId: game.sessionId }))).json();
    expect(flags.map(({ overQuota }: { overQuota: boolean }) => overQuota)).toEqual([false, true, true]);
  });
});

describe('a kill, and the next start', () => {
  const isAnswered = ({ status }: Answer): boolean => status !== 503;
  let game: TestProject;
  let sessionId: string;
  let body: Record<string, unknown>;
  let filed: Answer;
  let retracted: string;
  let busy: TestProject;
  let keyed: Answer;
  let acknowledged: string[];
  const headers = { 'Idempotency-Key': aKey() };
  let batch: object[];

  beforeAll(async () => {
    game = await aProject(product, { revision: 'A' });
    sessionId = await game.session();
    body = { id: randomUUID(), sessionId, events: events(3, { sessionId }), eventIds: [anUnknownId()] };
    filed = await game.report(body);
    retracted = (await game.report({ sessionId, eventIds: [anUnknownId()] })).json().id;
    await game.request('DELETE', `/v1/reports/${retracted}`);
    busy = await aProject(product, { revision: 'A' });
    batch = events(10, { sessionId: busy.sessionId, occurredAt: '2026-05-05' });
    const answers = await Promise.all(Array.from({ length: 10 }, () => busy.post(batch)));
    keyed = await busy.post(batch, headers);
    acknowledged = [...answers, keyed].flatMap((answer) => answer.json().map(({ id }: { id: string }) => id));
    await product.kill();
    await restart();
    [game, busy] = [onto(game, product), onto(busy, product)];
  }, START_WITHIN_MS);

  test('the response to a new event has the report of its session, but not the retracted report', async () => {
    // Uses a time in the window of the report, so that the duration of the restart does not matter.
    const { occurredAt } = filed.json();
    const [event] = (await game.post(anEvent({ sessionId, occurredAt }))).json();

    expect(event.reportIds).toEqual([body['id']]);
  });

  test('a retry still returns the report, and other content still gets a 409', {
    timeout: 2 * RECOVERED_WITHIN_MS,
  }, async () => {
    // Retries, because on Kafka clients get a 503 until the group sessions of the killed members have expired.
    const again = await eventually(() => game.report(body), isAnswered, RECOVERED_WITHIN_MS);
    const other = await game.report({ id: body['id'], sessionId });

    expect([again.status, other.status]).toEqual([200, 409]);
    const ids = (answer: Answer) => answer.json().events.map(({ id }: { id: string }) => id);
    expect(ids(again)).toEqual(ids(filed));
    expect(again.json()).toMatchObject({
      id: body['id'],
      occurredAt: filed.json().occurredAt,
      receivedAt: filed.json().receivedAt,
    });
    const page = await game.get(`/v1/sessions/${sessionId}/events`);
    expect(page.json().events).toHaveLength(4);
  });

  test('a retracted report stays retracted, and another retraction changes nothing', async () => {
    expect((await game.request('DELETE', `/v1/reports/${retracted}`)).status).toBe(204);
    const report = (await game.get(`/v1/reports/${retracted}`)).json();

    expect(report.state).toBe('retracted');
    expect(new Set(report.links.map(({ state }: { state: string }) => state))).toEqual(
      new Set(['retracted']),
    );
  });

  test('a report from before the restart can be retracted', async () => {
    const { id } = (await game.report({ sessionId: game.sessionId })).json();
    expect((await game.request('DELETE', `/v1/reports/${body['id']}`)).status).toBe(204);
    expect((await game.get(`/v1/reports/${body['id']}`)).json().state).toBe('retracted');

    expect((await game.get(`/v1/reports/${id}`)).json().state).toBe('filed');
    expect((await game.post(anEvent({ sessionId }))).json()[0].reportIds).toEqual([]);
  });

  test('keeps all acknowledged events, and stores a retry of the last request once', {
    timeout: 2 * RECOVERED_WITHIN_MS,
  }, async () => {
    const retried = await eventually(() => busy.post(batch, headers), isAnswered, RECOVERED_WITHIN_MS);
    expect([200, 201]).toContain(retried.status);
    expect(retried.text()).toBe(keyed.text());
    await expectStoredOnce(busy, acknowledged);
  });
});

/**
 * Stops the product while a stream is open, one client sends a body slowly, another repeats requests on one connection, and
 * others send events. @param acknowledged receives the ids of the acknowledged events
 */
async function stopUnderLoad(of: Product, game: TestProject, acknowledged: string[]) {
  const { baseUrl, token } = of.credentials;
  const stream = await fetch(`${baseUrl}/v1/linked-events?from=end`, {
    headers: { Authorization: `Bearer ${token}` },
  });
  const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
  expect((await reader?.read())?.value).toMatch(/^retry: \d+\nid: \S+\n\n$/);
  expect(stream.headers.get('content-type')).toBe('text/event-stream');
  expect(stream.headers.get('x-request-id')).not.toBeNull();
  const slow = sendSlowly(of);
  const repeated = repeatRequests(of);
  let signalledMs: number | undefined;
  let stopped: Promise<number | null> | undefined;
  const client = async (): Promise<void> => {
    while (signalledMs === undefined) {
      const answer = await game.post(events(20, { sessionId: game.sessionId })).catch(() => undefined);
      if (answer === undefined) return;
      expect(answer.status).toBe(201);
      acknowledged.push(...answer.json().map(({ id }: { id: string }) => id));
      if (acknowledged.length < 800 || signalledMs !== undefined) continue;
      signalledMs = performance.now();
      stopped = of.stop();
    }
  };
  await Promise.all(Array.from({ length: 8 }, client));
  let read = await reader?.read();
  // Skips heartbeats.
  while (read?.value?.startsWith(': heartbeat')) read = await reader?.read();
  const isStreamDone = read?.done === true;
  const status = (await stopped) ?? null;
  const withinMs = performance.now() - (signalledMs ?? 0);
  expect(await repeated).toBe('the connection ended');
  slow.destroy();
  return { status, withinMs, isStreamDone };
}

/** Starts a request and does not send its whole body. */
function sendSlowly({ credentials: { baseUrl, token } }: Product): Socket {
  const { hostname, port } = new URL(baseUrl);
  const socket = connect(Number(port), hostname, () => {
    const head = `POST /v1/ingest/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n`;
    socket.write(`${head}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n[`);
  });
  return socket.on('error', () => {});
}

/** Sends requests on one connection until the connection ends. */
async function repeatRequests({ credentials: { baseUrl, token } }: Product): Promise<string> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
  try {
    for (;;) {
      const sent = request(`${baseUrl}/v1/ingest/sessions`, { method: 'POST', agent, headers }).end('{}');
      const [answer] = await once(sent, 'response');
      await text(answer);
    }
  } catch {
    return 'the connection ended';
  }
}

async function expectStoredOnce(game: TestProject, acknowledged: readonly string[]): Promise<void> {
  const { used } = (await game.get('/v1/quota')).json();
  const rows = await product.sql<{ id: string }>(
    `SELECT id FROM events WHERE project_id = '${game.projectId}'`,
  );
  const stored = new Set(rows.map(({ id }) => id));
  expect(rows).toHaveLength(stored.size);
  expect(used).toBe(stored.size);
  expect(acknowledged.filter((id) => !stored.has(id))).toEqual([]);
}

/** Removes the reader account from the credentials, because an older version did not write this account. */
function forgetReader(dataDir: string): void {
  const path = join(dataDir, 'dev-credentials.json');
  const { clickhouse, ...others } = JSON.parse(readFileSync(path, 'utf8'));
  writeFileSync(path, JSON.stringify({ ...others, clickhouse: { ...clickhouse, reader: undefined } }));
}
