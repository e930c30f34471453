/**
 * Tests `Idempotency-Key`. Requests with the same key and the same body are stored once and get the same answer. A request with
 * the same key and another body is rejected.
 */
import { randomUUID } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { millisOf } from '@questlog/schemas/uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import { aKey, anEvent, events, type TestProject } from './builders.ts';
import type { Answer } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

describe.concurrent('the same key with the same body', () => {
  test('is a 200 marked as replayed, with the first answer', async () => {
    const key = aKey();
    const body = events(3, { sessionId: game.sessionId });
    const first = await post(key, body);
    const again = await post(key, body);

    expect(first.status).toBe(201);
    expect(first.headers.get('idempotency-replayed')).toBeNull();
    expectReplay(again, first);
  });

  test('is a replay also after the events are in ClickHouse, each time', async () => {
    const key = aKey();
    const body = [anEvent({ sessionId: game.sessionId })];
    const first = await post(key, body);
    await game.get(`/v1/events/${first.json()[0].id}`);

    expectReplay(await post(key, body), first);
    expectReplay(await post(key, body), first);
  });

  test('is stored once and counted once', async () => {
    const own = await shared.aProject({ revision: 'A' });
    const key = aKey();
    const body = events(5, { sessionId: own.sessionId });
    const first = await own.post(body, { 'Idempotency-Key': key });
    for (let i = 0; i < 3; i++) await own.post(body, { 'Idempotency-Key': key });

    expect((await own.get(`/v1/sessions/${own.sessionId}/events`)).json().events).toEqual(first.json());
    expect((await own.get('/v1/quota')).json().used).toBe(5);
    const rows = await shared.product.sql(
      `SELECT count() AS appends, sum(events) AS events FROM appends WHERE idempotency_key = '${key}'`,
    );
    expect(rows).toEqual([{ appends: 1, events: 5 }]);
  });

  test('sent concurrently is one 201 and its replays, stored once', async () => {
    const own = await shared.aProject({ revision: 'A' });
    const key = aKey();
    const body = events(4, { sessionId: own.sessionId });
    const answers = await Promise.all(
      Array.from({ length: 16 }, () => own.post(body, { 'Idempotency-Key': key })),
    );

    expect(answers.map(({ status }) => status).sort()).toEqual([
      ...Array.from({ length: 15 }, () => 200),
      201,
    ]);
    expect(new Set(answers.map((answer) => answer.text())).size).toBe(1);
    expect((await own.get('/v1/quota')).json().used).toBe(4);
  });

  test('is a replay also with a Content-Encoding', async () => {
    const key = aKey();
    const body = JSON.stringify(events(2, { sessionId: game.sessionId }));
    const first = await game.post(body, { 'Idempotency-Key': key });
    const again = await game.post(gzipSync(body), { 'Idempotency-Key': key, 'Content-Encoding': 'gzip' });

    expectReplay(again, first);
  });

  test('is a replay also with the key in quotes and in upper case', async () => {
    const key = aKey();
    const body = [anEvent({ sessionId: game.sessionId })];
    const first = await post(`"${key}"`, body);

    expect(first.status).toBe(201);
    expectReplay(await post(key.toUpperCase(), body), first);
  });
});

describe.concurrent('a replay', () => {
  test('returns the generated occurredAt of an event without one', async () => {
    const key = aKey();
    const body = [
      anEvent({ sessionId: game.sessionId }),
      anEvent({ sessionId: game.sessionId, occurredAt: '2026-01-02' }),
    ];
    const first = await post(key, body);
    await game.get(`/v1/events/${first.json()[0].id}`);
    const again = await post(key, body);

    expect(again.json()[0].occurredAt).toBe(first.json()[0].occurredAt);
    expect(again.json()[1].occurredAt).toBe('2026-01-02T00:00:00.000Z');
  });

  test('returns the original overQuota after the quota has changed', async () => {
    const own = await shared.aProject({ revision: 'A', monthlySoftQuota: 2 });
    const key = aKey();
    const body = events(3, { sessionId: own.sessionId });
    const first = await own.post(body, { 'Idempotency-Key': key });
    expect(first.json().map(flagOf)).toEqual([false, false, true]);
    await shared.product.admin('PATCH', `/admin/tenants/${own.tenantId}`, { monthlySoftQuota: 0 });

    expectReplay(await own.post(body, { 'Idempotency-Key': key }), first);
  });

  test('has ids with the key’s milliseconds, while receivedAt is the server’s time', async () => {
    const anHourAgo = Date.now() - 3_600_000;
    const key = aKey(anHourAgo);
    const [created] = (await post(key, [anEvent({ sessionId: game.sessionId })])).json();

    expect(millisOf(created.id)).toBe(anHourAgo);
    expect((await game.get(`/v1/events/${created.id}`)).json()).toEqual(created);
    const [row] = await shared.product.sql<{ received: number }>(
      `SELECT toUnixTimestamp64Milli(received_at) AS received FROM events WHERE id = '${created.id}'`,
    );
    expect(row?.received).toBeGreaterThan(anHourAgo + 3_000_000);
  });

  test('finds its events in all lanes after the tenant’s spread was raised', async () => {
    const own = await shared.aProject({ revision: 'A', spread: 4 });
    const sessions = await Promise.all(Array.from({ length: 8 }, () => own.session()));
    const body = sessions.map((sessionId, n) => anEvent({ sessionId, payload: { n } }));
    const key = aKey();
    const first = await own.post(body, { 'Idempotency-Key': key });
    await shared.product.admin('PATCH', `/admin/tenants/${own.tenantId}`, { spread: 16 });

    expectReplay(await own.post(body, { 'Idempotency-Key': key }), first);
    expect((await own.get('/v1/quota')).json().used).toBe(8);
  });
});

describe.concurrent('the same key with another body', () => {
  test('is a 422, before and after the projection, and stores nothing', async () => {
    const own = await shared.aProject({ revision: 'A' });
    const key = aKey();
    const [one, other] = [
      anEvent({ sessionId: own.sessionId }),
      anEvent({ sessionId: own.sessionId, payload: { n: 1 } }),
    ];
    await own.post([one], { 'Idempotency-Key': key });
    const early = await own.post([other], { 'Idempotency-Key': key });
    expect((await own.get('/v1/quota')).json().used).toBe(1);
    const late = await own.post(other, { 'Idempotency-Key': key });

    for (const { status, json } of [early, late]) {
      expect(status).toBe(422);
      expect(json().code).toBe('idempotency_key_reused');
    }
    expect((await own.get('/v1/quota')).json().used).toBe(1);
  });

  test('sent concurrently is one 201, and a 422 for each other body', async () => {
    const key = aKey();
    const answers = await Promise.all(
      events(8, { sessionId: game.sessionId }).map((event) => post(key, event)),
    );

    expect(answers.map(({ status }) => status).sort()).toEqual([
      201,
      ...Array.from({ length: 7 }, () => 422),
    ]);
  });

  test('is a new request if the first was rejected: a rejection does not use up the key', async () => {
    const key = aKey();
    expect((await post(key, [anEvent()])).status).toBe(400);
    expect((await post(key, [anEvent({ sessionId: randomUUID() })])).status).toBe(404);

    expect((await post(key, [anEvent({ sessionId: game.sessionId })])).status).toBe(201);
  });
});

test.concurrent.each(['the same tenant', 'another tenant'])(
  'the same key and body in another project of %s are an independent request',
  async (of) => {
    const one = await shared.aProject({ revision: 'B' });
    const tenantId = of === 'the same tenant' ? { tenantId: one.tenantId } : {};
    const other = await shared.aProject({ revision: 'B', ...tenantId });
    const key = { 'Idempotency-Key': aKey() };
    const answers = [await one.post(anEvent(), key), await other.post(anEvent(), key)];
    const [id, otherId] = answers.map((answer) => answer.json()[0].id);

    expect(answers.map(({ status }) => status)).toEqual([201, 201]);
    expect(otherId).not.toBe(id);
    expectReplay(await one.post(anEvent(), key), answers[0] as Answer);
    expectReplay(await other.post(anEvent(), key), answers[1] as Answer);
    for (const [project, own, foreign] of [
      [one, id, otherId],
      [other, otherId, id],
    ]) {
      expect((await project.get(`/v1/events/${own}`)).status).toBe(200);
      expect((await project.get(`/v1/events/${foreign}`)).status).toBe(404);
    }
  },
);

test.concurrent.each([
  ['a word', 'retry-1'],
  ['a UUIDv4', randomUUID()],
  ['a UUIDv7 without hyphens', aKey().replaceAll('-', '')],
  ['two keys', `${aKey()}, ${aKey()}`],
  ['an open quote', `"${aKey()}`],
])('a key that is not a UUIDv7 is a 400: %s', async (_, key) => {
  const answer = await post(key, anEvent({ sessionId: game.sessionId }));

  expect(answer.status).toBe(400);
  expect(answer.json().code).toBe('invalid_idempotency_key');
});

function post(key: string, body: unknown): Promise<Answer> {
  return game.post(body, { 'Idempotency-Key': key });
}

function expectReplay(again: Answer, first: Answer): void {
  expect(again.status).toBe(200);
  expect(again.headers.get('idempotency-replayed')).toBe('true');
  expect(again.text()).toBe(first.text());
}

function flagOf({ overQuota }: { overQuota?: boolean }): boolean | undefined {
  return overQuota;
}
