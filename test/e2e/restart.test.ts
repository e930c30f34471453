/** Tests that a restart keeps credentials, acknowledged events, sessions, quotas, and idempotency keys. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
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

describe('a restart', () => {
  let before: Product;
  let product: Product;
  let game: TestProject;
  let posted: Answer;
  let session: Answer;
  const key = aKey();
  const lenient = { Prefer: 'handling=lenient', 'Idempotency-Key': aKey() };
  const late = anUnknownId();
  let lenientBody: object[];
  let firstLenient: Answer;

  beforeAll(async () => {
    before = await startProduct();
    game = await aProject(before, { revision: 'A', monthlySoftQuota: 8 });
    session = await game.request('POST', '/v1/ingest/sessions', { body: { buildId: anUnknownId() } });
    posted = await game.post(events(5, { sessionId: game.sessionId }), { 'Idempotency-Key': key });
    lenientBody = [anEvent({ sessionId: game.sessionId }), anEvent({ sessionId: late })];
    firstLenient = await game.post(lenientBody, lenient);
    expect(await before.stop()).toBe(0);
    forgetReader(before.dataDir);
    product = await startProduct({ dataDir: before.dataDir });
    game = onto(game, product);
    return async () => {
      expect(await product.stop()).toBe(0);
      expect(bugsIn(product.stderr())).toEqual([]);
      await removeDataDir(product);
    };
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
    expect((await product.admin('GET', '/admin/tenants')).json()).toHaveLength(2);
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

test('stops with status 0 within 20 s on SIGTERM under load, and has every acknowledged event once after the next start', {
  timeout: 120_000,
}, async () => {
  const first = await startProduct();
  const game = await aProject(first, { revision: 'A' });
  const answered: string[] = [];
  let isStopping = false;
  let stopped: Promise<number | null> | undefined;
  let signalledAtMs = 0;
  const client = async (): Promise<void> => {
    while (!isStopping || answered.length === 0) {
      const answer = await game.post(events(20, { sessionId: game.sessionId })).catch(() => undefined);
      if (answer === undefined) return;
      expect(answer.status).toBe(201);
      answered.push(...answer.json().map(({ id }: { id: string }) => id));
      if (answered.length < 800 || isStopping) continue;
      isStopping = true;
      signalledAtMs = performance.now();
      stopped = first.stop();
    }
  };
  await Promise.all(Array.from({ length: 8 }, client));

  expect(await stopped).toBe(0);
  expect(performance.now() - signalledAtMs).toBeLessThan(STOPS_WITHIN_MS);
  expect(bugsIn(first.stderr())).toEqual([]);
  await expectStoredOnce(first.dataDir, game, answered);
});

test('keeps all acknowledged events after a SIGKILL, and stores a retry of the last request once', {
  timeout: 120_000,
}, async () => {
  const first = await startProduct();
  const game = await aProject(first, { revision: 'A' });
  const body = events(10, { sessionId: game.sessionId, occurredAt: '2026-05-05' });
  const headers = { 'Idempotency-Key': aKey() };
  const answers = await Promise.all(Array.from({ length: 10 }, () => game.post(body)));
  const keyed = await game.post(body, headers);
  await first.kill();
  const answered = [...answers, keyed].flatMap((answer) => answer.json().map(({ id }: { id: string }) => id));

  await expectStoredOnce(first.dataDir, game, answered, async (again) => {
    // Retries, because on Kafka the groups wait until the sessions of the killed members have expired.
    const retried = await eventually(
      () => again.post(body, headers),
      ({ status }) => status !== 503,
      30_000,
    );
    expect([200, 201]).toContain(retried.status);
    expect(retried.text()).toBe(keyed.text());
  });
});

async function expectStoredOnce(
  dataDir: string,
  before: TestProject,
  answered: readonly string[],
  retry: (game: TestProject) => Promise<void> = async () => {},
): Promise<void> {
  const product = await startProduct({ dataDir });
  const game = onto(before, product);
  await retry(game);
  const { used } = (await game.get('/v1/quota')).json();
  const rows = await product.sql<{ id: string }>(
    `SELECT id FROM events WHERE project_id = '${game.projectId}'`,
  );
  const stored = new Set(rows.map(({ id }) => id));
  expect(rows).toHaveLength(stored.size);
  expect(used).toBe(stored.size);
  expect(answered.filter((id) => !stored.has(id))).toEqual([]);
  expect(await product.stop()).toBe(0);
  expect(bugsIn(product.stderr())).toEqual([]);
  await removeDataDir(product);
}

/** Removes the reader account from the credentials, because an older version did not write this account. */
function forgetReader(dataDir: string): void {
  const path = join(dataDir, 'dev-credentials.json');
  const { clickhouse, ...others } = JSON.parse(readFileSync(path, 'utf8'));
  writeFileSync(path, JSON.stringify({ ...others, clickhouse: { ...clickhouse, reader: undefined } }));
}
