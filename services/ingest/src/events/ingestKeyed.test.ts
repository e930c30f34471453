/** Tests that each event of a request with an idempotency key is stored once, however the request is read and repeated. */

import { Unavailable } from '@questlog/runtime/process/errors';
import { expect, onTestFinished, test, vi } from 'vitest';
import { sha256 } from './core/keyedIds.ts';
import { KEY, SESSION } from './damagedBodies.testing.ts';
import { aProcess, event, NOW_MS, OTHER_KEY, REPORT, SWITCH } from './ingestProcess.testing.ts';

const BATCH = [event, { eventType: 'no session' }, { ...event, occurredAt: '2026-11-21T11:59:59.123Z' }];

const ONE_OF_BUILD = { ...event, buildId: KEY };

test.each([
  ['one event', event, {}],
  ['events of two lanes', BATCH, {}],
  ['events above the quota', Array(6).fill(event), { revision: 'A' }],
  ['a lenient request', BATCH, { isLenient: true }],
  ['a lenient request of 120 events', Array(120).fill(event), { isLenient: true }],
  [
    'a lenient request within the rate limit',
    BATCH,
    { isLenient: true, limits: { eventsPerSecond: 60, burstSeconds: 1 } },
  ],
  ['a lenient request of a project with a switch', BATCH, { isLenient: true, switches: [SWITCH] }],
  ['an event of a token for one build', ONE_OF_BUILD, { buildIds: [KEY] }],
  [
    'an event of a project with a switch for players',
    event,
    { switches: [{ ...SWITCH, eventType: null, playerShare: 1e-10 }] },
  ],
  ['events of a session with an open report', BATCH, { hasReport: true }],
])(
  'stores %s in the same way after `read` and after `fill`, and a retry returns the same events',
  async (_, body, options) => {
    const [read, filled] = [aProcess(options), aProcess({ ...options, isFilled: true })];
    const first = await read.send(body);
    expect(first).toEqual(await filled.send(body));
    expect(read.appended()).toEqual(filled.appended());
    expect(await read.remembered(body)).toStrictEqual(await filled.remembered(body));

    const retry = await read.send(body);
    expect([retry.isReplay, retry.body]).toEqual([true, first.body]);
    expect(read.appended()).toEqual(filled.appended());
  },
);

test.each([
  ['another build than the builds of the token', ONE_OF_BUILD, { buildIds: [SESSION] }, 'build_not_allowed'],
  [
    'a type that a switch rejects',
    event,
    { switches: [{ ...SWITCH, eventType: event.eventType }] },
    'switched_off',
  ],
  [
    'a build that a switch rejects',
    event,
    { switches: [{ ...SWITCH, eventType: null, buildId: KEY }] },
    'switched_off',
  ],
])('rejects an event of %s', async (_, body, options, code) => {
  const { send, appended } = aProcess(options);
  await expect(send(body)).rejects.toMatchObject({ errors: [{ code }] });
  expect(appended()).toEqual([]);
});

test('stores the events of a lenient request that the rate limit allows, and a retry adds the others', async () => {
  const { send, appended, clock } = aProcess({ limits: { eventsPerSecond: 60, burstSeconds: 1 } });
  await send(Array(50).fill(event), { key: OTHER_KEY });
  const body = Array(15).fill(event);
  const first = JSON.parse((await send(body, { isLenient: true })).body.toString());
  expect(first.filter(({ code }: { code?: string }) => code === 'rate_limited')).toHaveLength(5);
  // The rate limit allows no event of the next retries.
  await expect(send(body)).rejects.toMatchObject({ code: 'rate_limited' });
  expect((await send(body, { isLenient: true })).accepted).toBeUndefined();
  clock.ms += 2_000;
  expect((await send(body, { isLenient: true })).status).toBe(207);
  expect(appended().map(({ message }) => message.events.length)).toEqual([50, ...Array(15).fill(1)]);
});

test('acknowledges events that a switch samples out after the others for the quota, and does not store them', async () => {
  const sample = { ...SWITCH, eventType: 'sampled', action: 'sample', sampleRate: 0 };
  const { send, appended, used } = aProcess({ revision: 'A', switches: [sample] });
  const { body, headers, accepted } = await send([
    { ...event, eventType: 'sampled' },
    ...Array(4).fill(event),
  ]);
  const flags = JSON.parse(body.toString()).map(({ overQuota }: { overQuota: boolean }) => overQuota);
  expect([flags, used()]).toEqual([[true, false, false, false, false], 4]);
  expect(headers).toEqual({ 'Questlog-Sampled': '1 of 5' });
  expect(accepted).toEqual({ receivedAtMs: NOW_MS, events: 5, sampled: 1 });
  // With one record per event, a retry after a change of the sampling rate can add the dropped event.
  expect(appended().map(({ message }) => message.events.map(({ eventType }) => eventType))).toEqual(
    Array(4).fill([event.eventType]),
  );
});

test('does not mix the events of requests that wait for the lookup of a session or a quota', async () => {
  const { send, appended, lookUp } = aProcess();
  Object.assign(lookUp, { hasSessions: false, hasQuota: false });
  const bodies = ['a', 'b', 'c'].map((eventType, i) => Array(i + 1).fill({ ...event, eventType }));
  const keys = [OTHER_KEY, KEY, null];
  const answers = await Promise.all(bodies.map((body, i) => send(body, { key: keys[i] })));
  const typesOf = (events: readonly { eventType: string }[]) => events.map(({ eventType }) => eventType);
  expect(answers.map(({ body }) => typesOf(JSON.parse(body.toString())))).toEqual(bodies.map(typesOf));
  const records = appended().map(({ message }) => typesOf(message.events));
  expect(records.toSorted((one, other) => one.length - other.length)).toEqual(bodies.map(typesOf));
});

test('stores concurrent requests with the same key once, also after a failed append', async () => {
  const { send, appended, broker, used } = aProcess();
  broker.isBroken = true;
  await expect(send(event)).rejects.toThrow('no broker');
  broker.isBroken = false;
  const failed = appended();
  const answers = await Promise.all([send(event), send(event)]);
  expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 201]);
  expect(used()).toBe(1);
  // Consumers skip a record if they have already read a record with the same append id.
  expect(appended()).toEqual([...failed, ...failed]);
});

test('keeps a stored request in the cache while many other requests fail', async () => {
  const { send, broker } = aProcess({ revision: 'A' });
  await send(event);
  broker.isBroken = true;
  const keys = Array.from({ length: 410 }, (_, n) => KEY.replace('01a1', (n + 0x1000).toString(16)));
  const others = keys.map((key) => send(Array(500).fill(event), { key }));
  await Promise.all(others.map((other) => expect(other).rejects.toThrow('no broker')));
  expect((await send(event)).isReplay).toBe(true);
});

test('rejects a different body with the same key, and stores concurrent requests with different keys', async () => {
  const { send, appended } = aProcess();
  const other = { ...event, eventType: 'other' };
  const answers = await Promise.all([send(event), send(other, { key: OTHER_KEY })]);
  const types = answers.map(({ body }) => JSON.parse(body.toString())[0].eventType);
  expect(types).toEqual([event.eventType, other.eventType]);
  expect(appended().map(({ message }) => message.events[0]?.eventType)).toEqual(types);
  await expect(send(other)).rejects.toMatchObject({ code: 'idempotency_key_reused' });
});

test('stores a request whose key belongs to a concurrent invalid request', async () => {
  const { send } = aProcess();
  const invalid = send({ ...event, eventType: 7 });
  const valid = send(event);
  await expect(invalid).rejects.toMatchObject({ errors: [{ pointer: '/eventType' }] });
  expect((await valid).status).toBe(201);
});

test('reports the problems of an invalid request before a reused key and an outage of ClickHouse', async () => {
  const { send, lookUp } = aProcess();
  await send(event);
  const invalid = { ...event, eventType: 7 };
  await expect(send(invalid)).rejects.toMatchObject({ errors: [{ pointer: '/eventType' }] });
  lookUp.isBroken = true;
  await expect(send(invalid, { key: OTHER_KEY })).rejects.toMatchObject({
    errors: [{ pointer: '/eventType' }],
  });
  await expect(send(event, { key: OTHER_KEY })).rejects.toThrow(Unavailable);
  lookUp.isBroken = false;
  expect((await send(event, { key: OTHER_KEY })).status).toBe(201);
});

test('rejects an invalid request while ClickHouse does not answer, and then stores a valid one with its key', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const { send, lookUp } = aProcess();
  const outage = Promise.withResolvers<void>();
  lookUp.answer = outage.promise;
  const invalid = expect(send({ ...event, eventType: 7 })).rejects.toMatchObject({
    errors: [{ pointer: '/eventType' }],
  });
  const valid = send(event, { key: OTHER_KEY });
  await vi.advanceTimersByTimeAsync(1_500);
  await invalid;
  // This request waits for the same query as the request before.
  const later = expect(send({ ...event, eventType: 8 })).rejects.toMatchObject({
    errors: [{ pointer: '/eventType' }],
  });
  await vi.advanceTimersByTimeAsync(1_000);
  await later;
  const sameKey = send(event);
  outage.resolve();
  expect([(await valid).status, (await sameKey).status]).toEqual([201, 201]);
  expect(vi.getTimerCount()).toBe(0);
});

test('does not look up sessions after a failed lookup of the key', async () => {
  const { send, lookUp, sessionLookups } = aProcess();
  lookUp.isBroken = true;
  await expect(send({ ...event, sessionId: KEY })).rejects.toThrow(Unavailable);
  expect(sessionLookups()).toBe(0);
  const invalid = await send([{ ...event, eventType: 7 }], { isLenient: true });
  expect([invalid.status, invalid.rejectedElements.length]).toEqual([207, 1]);
});

test('looks up the key of a request once', async () => {
  const { send, lookUp } = aProcess();
  expect((await send(event)).status).toBe(201);
  expect((await send(event)).isReplay).toBe(true);
  expect(lookUp.queries).toBe(1);
});

test('looks up a key that another process has stored once', async () => {
  const { send, lookUp } = aProcess();
  lookUp.appends = [{ key: KEY, digest: sha256(Buffer.from(JSON.stringify(event))).toString('hex') }];
  expect((await send(event)).status).toBe(201);
  // The second query reads the events of the key.
  expect(lookUp.queries).toBe(2);
});

test('a lenient retry at another process repeats the record of a stored session with the same append id', async () => {
  const [first, second] = [aProcess({ isLenient: true }), aProcess({ isLenient: true })];
  const body = [event, { ...event, sessionId: KEY }, event];
  await first.send(body);
  second.sessions.add(KEY);
  await second.send(body);
  const [stored] = first.appended();
  expect(second.appended()).toEqual([stored, expect.anything()]);
  expect(second.appended()[1]?.message.events.map(({ sessionId }) => sessionId)).toEqual([KEY]);
});

test('stores only the missing events of a lenient request that is repeated', async () => {
  const { send, appended, sessions } = aProcess();
  const body = [event, { ...event, sessionId: KEY }];
  expect((await send(body, { isLenient: true })).status).toBe(207);
  sessions.add(KEY);
  expect((await send(body)).status).toBe(201);
  const stored = appended().map(({ message }) => message.events.map(({ sessionId }) => sessionId));
  expect(stored).toEqual([[SESSION], [KEY]]);
});

test('a replay does not store an event whose session is registered during the replay', async () => {
  const { send, appended, lookUp, sessions } = aProcess({ revision: 'A', isLenient: true });
  const body = [event, { ...event, sessionId: KEY }];
  const first = await send(body);
  lookUp.onReplay = () => void sessions.add(KEY);
  const retry = await send(body);
  expect([retry.isReplay, retry.accepted]).toEqual([true, undefined]);
  expect(retry.body.toString()).toBe(first.body.toString());
  expect(appended()).toHaveLength(1);
  expect((await send(body)).accepted).toMatchObject({ events: 1 });
});

test.each(['hasReport', 'isNamed'] as const)(
  'links events to a report that is filed while ingest looks up the key: %s',
  async (how) => {
    const { send, lookUp } = aProcess();
    const answer = send(event);
    lookUp[how] = true;
    expect(JSON.parse((await answer).body.toString())).toMatchObject([{ reportIds: [REPORT] }]);
  },
);
