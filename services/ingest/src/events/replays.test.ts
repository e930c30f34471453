/** Tests that each event of a keyed request is stored once. */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';
import { eventId, millisOf } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { OVER_QUOTA, SAMPLED_OUT } from './core/eventBytes.ts';
import { keyedTails } from './core/keyedIds.ts';
import type { StoredColumns, StoredElement } from './replayCache.ts';
import { type Claim, type KeyedRequest, openReplays, type Replays } from './replays.ts';

const STARTED_MS = Date.UTC(2026, 10, 21, 12);

test('stores a key once that is newer than the last answer of ClickHouse', async () => {
  const { replays, outage, clock } = aProcess();
  outage.isOn = true;
  clock.nowMs = STARTED_MS + 1;
  const request = aRequest({ madeAtMs: STARTED_MS + 1 });
  const appended: StoredElement[] = [];
  const append = async (): Promise<StoredElement[]> => {
    appended.push(anEvent());
    return appended;
  };
  expect(await once(replays, request, append)).toEqual({ stored: appended, isReplay: false });
  expect(await once(replays, request, append)).toEqual({ stored: appended, isReplay: true });
  expect(appended).toHaveLength(1);
});

test('waits for ClickHouse with an older key', async () => {
  const { replays, outage, clock } = aProcess();
  const never = (): Promise<never> => Promise.reject(new Error('it was appended'));
  outage.isOn = true;
  await expect(once(replays, aRequest({ madeAtMs: STARTED_MS }), never)).rejects.toThrow(Unavailable);

  // ClickHouse answers again. A key that is not newer than this answer then waits for ClickHouse.
  outage.isOn = false;
  clock.nowMs = STARTED_MS + 60_000;
  await once(replays, aRequest({ madeAtMs: clock.nowMs }), async () => [anEvent()]);
  outage.isOn = true;
  const since = aRequest({ madeAtMs: STARTED_MS + 60_000 });
  await expect(once(replays, since, never)).rejects.toThrow(Unavailable);
});

test('waits for ClickHouse with a key from the future', async () => {
  const { replays, outage } = aProcess();
  outage.isOn = true;
  const never = (): Promise<never> => Promise.reject(new Error('it was appended'));
  await expect(once(replays, aRequest({ madeAtMs: STARTED_MS + 1 }), never)).rejects.toThrow(Unavailable);
});

test('a retry waits for the first request, and gets its stored events', async () => {
  const { replays, asked } = aProcess();
  const request = aRequest();
  const first = await task(replays, request);
  expect(asked).toHaveLength(1);
  const repeats = [replays.claim(request), replays.claim(request)];
  const stored = [anEvent(), { ...anEvent(1), isSampledOut: true }];
  first.complete(columnsOf(stored));
  for (const repeat of repeats) expect(await repeat).toEqual({ isReplay: true, stored });
});

test('if the first request releases its claim or stores only some events, one waiting request continues', async () => {
  const { replays } = aProcess();
  const request = aRequest({ indexes: [0, 1] });
  const first = await task(replays, request);
  const left = new Set([0, 1, 2]);
  const claims = [...left].map(async (n) => {
    const claim = await replays.claim(request);
    left.delete(n);
    return claim;
  });
  const next = async (): Promise<Task> => {
    const there = left.size;
    await expect.poll(() => left.size).toBe(there - 1);
    const claim = await claims[[0, 1, 2].findLast((n) => !left.has(n)) ?? 0];
    if (claim === undefined || claim.isReplay) throw new Error('nothing was left to store');
    return claim;
  };
  first.release();
  const second = await next();
  expect(second.stored).toEqual([]);
  second.complete(columnsOf([anEvent()]));
  const third = await next();
  expect(third.stored).toHaveLength(1);
  third.complete(columnsOf([anEvent(1)]));
  expect(await claims[2]).toMatchObject({ isReplay: true, stored: [{ index: 0 }, { index: 1 }] });
});

test('rejects a key with another body, and separates keys of different projects', async () => {
  const { replays } = aProcess();
  const request = aRequest();
  const other = { ...request, digest: randomBytes(32) };
  const first = await task(replays, request);
  const refusal = { code: 'idempotency_key_reused' };
  const waiting = expect(replays.claim(other)).rejects.toMatchObject(refusal);
  first.complete(columnsOf([anEvent()]));
  await waiting;
  await expect(replays.claim(other)).rejects.toMatchObject(refusal);
  expect((await replays.claim({ ...other, projectId: randomUUID() })).isReplay).toBe(false);
});

test('finds events that earlier processes stored, after they are projected', async () => {
  const { replays, tables, asked, projected } = aProcess({ isProjected: false });
  const request = aRequest({ indexes: [0, 1, 2] });
  const ofKey = (index: number) => ({
    ...{
      id: eventId(millisOf(request.key), 3, keyedTails(request.projectId, request, [index])),
    },
    ...{ occurredAt: `17${index}`, overQuota: index === 2 },
  });
  tables.appends = [{ key: request.key, digest: request.digest.toString('hex') }];
  tables.events = [
    ofKey(2),
    { ...ofKey(0), id: eventId(millisOf(request.key), 3, randomBytes(8)) },
    ofKey(0),
  ];
  const claims = [replays.claim(request)];
  await expect.poll(() => projected.waits).toEqual([['all']]);
  expect(asked).toEqual([]);
  projected.resolve();
  const { tenantId, projectId, key } = request;
  const before = [0, 2].map((index) => ({ ...ofKey(index), index, occurredAt: BigInt(`17${index}`) }));
  const some = await claims[0];
  expect(some).toMatchObject({ isReplay: false, stored: before });
  expect(asked).toEqual([
    { keys: [key], projectId },
    { tenantId, projectId, millis: millisOf(key) },
  ]);
  if (some?.isReplay === false) some.release();

  tables.events.push(ofKey(1));
  const all = await replays.claim(request);
  expect(all).toMatchObject({ isReplay: true, stored: [{ index: 0 }, { index: 1 }, { index: 2 }] });
  // The events are in the cache from now on.
  expect(await replays.claim(request)).toEqual(all);
  expect(asked).toHaveLength(4);
});

test('a failed lookup leaves the key to the next request', async () => {
  const { replays, outage } = aProcess();
  const request = aRequest({ madeAtMs: STARTED_MS });
  outage.isOn = true;
  await expect(replays.claim(request)).rejects.toThrow(Unavailable);
  outage.isOn = false;
  expect((await replays.claim(request)).isReplay).toBe(false);
});

test('caches 200,000 events for a day, evicts the oldest first, and keeps running requests', async () => {
  const { replays, asked, clock } = aProcess();
  const many = Array.from({ length: 100_000 }, (_, index) => anEvent(index));
  const underWay = aRequest();
  const claim = await task(replays, underWay);
  const requests = Array.from({ length: 4 }, () => aRequest());
  const isRemembered = async (n: number): Promise<boolean> => {
    const there = asked.length;
    const again = await replays.claim(requests[n] ?? underWay);
    if (!again.isReplay) again.release();
    return asked.length === there;
  };
  const keep = async (n: number, events: StoredElement[]) =>
    (await task(replays, requests[n] ?? underWay)).complete(columnsOf(events));
  await keep(0, many);
  await keep(1, many);
  expect([await isRemembered(0), await isRemembered(1)]).toEqual([true, true]);
  await keep(2, [anEvent()]);
  expect([await isRemembered(0), await isRemembered(1), await isRemembered(2)]).toEqual([false, true, true]);

  clock.nowMs += 24 * 60 * 60 * 1000 - 1;
  await keep(0, many.slice(1));
  expect([await isRemembered(1), await isRemembered(2)]).toEqual([true, true]);
  clock.nowMs += 1;
  await keep(3, [anEvent()]);
  expect([await isRemembered(1), await isRemembered(2)]).toEqual([false, false]);
  expect([await isRemembered(0), await isRemembered(3)]).toEqual([true, true]);

  const repeat = replays.claim(underWay);
  const kept = [anEvent()];
  claim.complete(columnsOf(kept));
  expect(await repeat).toEqual({ isReplay: true, stored: kept });
});

test('looks up a retry after a truncation, and stores it again if ClickHouse does not have it', async () => {
  const { replays, tables, asked } = aProcess();
  const [remembered, underWay] = [aRequest(), aRequest()];
  (await task(replays, remembered)).complete(columnsOf([anEvent()]));
  const first = await task(replays, underWay);
  const waiting = replays.claim(underWay);
  replays.onTruncated();
  const there = asked.length;
  const again = await task(replays, remembered);
  expect([asked.length, again.stored]).toEqual([there + 1, []]);
  again.complete(columnsOf([anEvent()]));
  expect(await replays.claim(remembered)).toMatchObject({ isReplay: true });

  // Some events may have been confirmed before the truncation.
  first.complete(columnsOf([anEvent()]));
  expect(await waiting).toMatchObject({ isReplay: false });

  tables.appends = [{ key: remembered.key, digest: remembered.digest.toString('hex') }];
  tables.events = [
    {
      id: eventId(millisOf(remembered.key), 3, keyedTails(remembered.projectId, remembered, [0])),
      ...{ occurredAt: '1', overQuota: false },
    },
  ];
  replays.onTruncated();
  expect(await replays.claim(remembered)).toMatchObject({ isReplay: true, stored: [{ index: 0 }] });
});

test('does not treat other errors as an outage', async () => {
  const { replays, tables } = aProcess();
  const request = aRequest({ madeAtMs: STARTED_MS + 1 });
  tables.appends = [{ key: request.key, digest: randomBytes(32).toString('hex') }];
  await expect(replays.claim(request)).rejects.toMatchObject({ code: 'idempotency_key_reused' });
});

test('combines concurrent keys of a project into one query', async () => {
  const { replays, tables, asked } = aProcess();
  const first = { ...aRequest(), digest: randomBytes(32) };
  const others = Array.from({ length: 200 }, () => ({ ...aRequest(), projectId: first.projectId }));
  tables.appends = others.map(({ key, digest }) => ({ key, digest: digest.toString('hex') }));
  const claims = [first, ...others].map((request) => replays.claim(request));
  expect((await claims[0])?.isReplay).toBe(false);
  await Promise.all(claims);

  const ofLedger = asked.filter((params) => 'keys' in params) as { keys: string[] }[];
  expect(ofLedger.length).toBeLessThanOrEqual(2);
  expect(ofLedger.flatMap(({ keys }) => keys)).toHaveLength(201);
});

async function once(
  replays: Replays,
  request: KeyedRequest,
  append: () => Promise<readonly StoredElement[]>,
): Promise<{ stored: readonly StoredElement[]; isReplay: boolean }> {
  const claim = await replays.claim(request);
  if (claim.isReplay) return { stored: claim.stored, isReplay: true };
  const stored = await append();
  claim.complete(columnsOf(stored));
  return { stored, isReplay: false };
}

type Task = Extract<Claim, { isReplay: false }>;

async function task(replays: Replays, request: KeyedRequest): Promise<Task> {
  const claim = await replays.claim(request);
  if (claim.isReplay) throw new Error('it was stored before');
  return claim;
}

function aProcess({ isProjected = true } = {}) {
  const outage = { isOn: false };
  const tables = { appends: [] as object[], events: [] as object[] };
  const asked: object[] = [];
  const clock = { nowMs: STARTED_MS, now: () => clock.nowMs };
  const query = async (sql: string, params: object): Promise<object[]> => {
    asked.push(params);
    if (outage.isOn) throw new Unavailable('an outage');
    return sql.includes('FROM appends') ? tables.appends : tables.events;
  };
  const { promise, resolve } = Promise.withResolvers<void>();
  const waits: unknown[][] = [];
  const caughtUp = (...of: unknown[]): Promise<void> => {
    waits.push(of);
    // A lagging projector must not block requests permanently.
    return isProjected ? Promise.reject(new Unavailable('it lags')) : promise;
  };
  const projection = { caughtUp, projected: async () => [] };
  const replays = openReplays({ store: { query } as unknown as Store, clock, projection });
  return { replays, outage, tables, asked, clock, projected: { waits, resolve } };
}

function aRequest({ madeAtMs = STARTED_MS, indexes = [0] } = {}): KeyedRequest {
  return {
    tenantId: randomUUID(),
    projectId: randomUUID(),
    key: eventId(madeAtMs, 0, randomBytes(8)),
    digest: createHash('sha256').update('a body').digest(),
    indexes,
  };
}

function anEvent(index = 0): StoredElement {
  return { index, id: randomUUID(), occurredAt: 0n, overQuota: false };
}

function columnsOf(events: readonly StoredElement[]): StoredColumns {
  const stateOf = ({ overQuota, isSampledOut = false }: StoredElement) =>
    (overQuota ? OVER_QUOTA : 0) | (isSampledOut ? SAMPLED_OUT : 0);
  return {
    count: events.length,
    ids: Buffer.from(events.map(({ id }) => id).join('')),
    indexes: Uint16Array.from(events, ({ index }) => index),
    seconds: Float64Array.from(events, ({ occurredAt }) => Number(occurredAt / 1_000_000n)),
    micros: Int32Array.from(events, ({ occurredAt }) => Number(occurredAt % 1_000_000n)),
    states: Uint8Array.from(events, stateOf),
  };
}
