/** Tests that a request with an idempotency key gives the same records and the same response on the fast and the slow path. */

import { Unavailable } from '@questlog/runtime/process/errors';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { expect, onTestFinished, test, vi } from 'vitest';
import { openLimits } from '../limits/limits.ts';
import { ingestMetrics } from '../metrics.ts';
import { sha256 } from './core/accept.ts';
import { KEY, SESSION } from './damagedBodies.testing.ts';
import { type IngestDeps, idempotencyOf, ingest } from './ingestEvents.ts';
import { OrdinaryIngest } from './ingestOrdinary.ts';
import { OwnAppends } from './ownAppends.ts';
import { openReplays } from './replays.ts';
import { RandomPool } from './storeEvents.ts';

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const OTHER_KEY = KEY.replace('01a1', '01a2');
const REPORT = 'a report';
const ALWAYS = { fromMicros: 0n, toMicros: 2n ** 62n };
const event = { sessionId: SESSION, eventType: 'checkpoint é', payload: { level: 3 }, sequence: 7 };
const BATCH = [event, { eventType: 'no session' }, { ...event, occurredAt: '2026-11-21T11:59:59.123Z' }];

const ONE_OF_BUILD = { ...event, buildId: KEY };
const SWITCH = { eventType: 'other', buildId: null, playerShare: null, action: 'reject', until: null };

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
])('stores %s as the slow path does, and a retry returns the same events', async (_, body, options) => {
  const [fast, slow] = [aProcess(options), aProcess({ ...options, isFast: false })];
  const first = await fast.send(body);
  expect({ headers: {}, ...first }).toEqual(await slow.send(body));
  expect(fast.appended()).toEqual(slow.appended());
  expect([fast.taken(), slow.taken()]).toEqual([1, 0]);
  // The elements have no payloads. A payload in the cache would keep the whole body in memory for a day.
  expect(await fast.remembered(body)).toStrictEqual(await slow.remembered(body));

  const retry = await fast.send(body);
  expect([retry.isReplay, retry.body]).toEqual([true, first.body]);
  expect(fast.appended()).toEqual(slow.appended());
});

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
  const { send, appended, clock, taken } = aProcess({ limits: { eventsPerSecond: 60, burstSeconds: 1 } });
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
  expect(taken()).toBe(1);
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

test('looks up the key of a request once, also on the slow path', async () => {
  const { send, lookUp, taken } = aProcess();
  const body = { ...event, eventType: 'a "quoted" type' };
  expect((await send(body)).status).toBe(201);
  expect([lookUp.queries, taken()]).toEqual([1, 0]);
  expect((await send(body)).isReplay).toBe(true);
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
  expect([first.taken(), second.taken()]).toEqual([0, 1]);
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

test.each(['hasReport', 'isNamed'] as const)(
  'links events to a report that is filed while ingest looks up the key: %s',
  async (how) => {
    const { send, lookUp } = aProcess();
    const answer = send(event);
    lookUp[how] = true;
    expect(JSON.parse((await answer).body.toString())).toMatchObject([{ reportIds: [REPORT] }]);
  },
);

interface ProcessOptions {
  readonly isFast?: boolean;
  readonly isLenient?: boolean;
  readonly revision?: string;
  readonly switches?: readonly unknown[];
  readonly buildIds?: readonly string[];
  readonly hasReport?: boolean;
  readonly limits?: unknown;
}

function aProcess({ isFast = true, revision = 'B', hasReport = false, ...options }: ProcessOptions = {}) {
  const metrics = ingestMetrics(createMetricsRegistry());
  const clock = { ms: NOW_MS, now: () => clock.ms };
  const values: Buffer[] = [];
  const sessions = new Set([SESSION]);
  const lookUp = {
    ...{ hasReport, isNamed: false, isBroken: false, queries: 0, answer: Promise.resolve() },
    appends: [] as object[],
  };
  const broker = { isBroken: false };
  let used = 0;
  const store = {
    query: async (sql: string) => {
      lookUp.queries += 1;
      await lookUp.answer;
      if (lookUp.isBroken) throw new Unavailable('an outage');
      return sql.includes('FROM appends') ? lookUp.appends : [];
    },
  };
  const projection = { caughtUp: async () => undefined };
  const ledger = {
    reserve: (events: number) => {
      used += events;
      return used - events;
    },
    confirm: () => {},
    release: (events: number) => {
      used -= events;
    },
  };
  const session = { lane: 5, buildId: KEY, player: 1 };
  const recent = { ...session, projectId: KEY, sessionId: SESSION, build: Buffer.from(KEY) };
  let taken = 0;
  let sessionLookups = 0;
  const known = {
    ...{ clock, metrics, store, partitions: 12, random: new RandomPool(), received: [] },
    limits: openLimits(clock, metrics, () => 1),
    ownAppends: new OwnAppends(() => undefined),
    sessions: {
      find: async (_: string, __: string, ids: readonly string[]) => {
        sessionLookups += 1;
        return new Map(ids.filter((id) => sessions.has(id)).map((id) => [id, session]));
      },
      peek: (_: string, __: Uint32Array, ___: number, idOf: () => string) =>
        sessions.has(idOf()) ? { ...recent, sessionId: idOf() } : undefined,
    },
    reports: {
      reportsOf: (_: string, { sessionId }: { sessionId: string | null }) =>
        (lookUp.hasReport && sessionId !== null) || lookUp.isNamed ? [REPORT] : [],
      linkableReports: () => (lookUp.hasReport ? [{ reportId: REPORT, window: ALWAYS }] : []),
      hasNamedEvents: () => lookUp.isNamed,
      hasReports: async () => false,
    },
    replays: openReplays({ store, clock, projection } as never),
    quotas: { ledger: async () => ledger, ledgerIfOpen: () => ledger },
    codec: { schemaId: 0, encode: (message: never) => eventsAccepted.framed(0, message) },
    log: {
      append: async (_: string, __: number, records: readonly { value: Buffer }[]) => {
        // The caller frees the buffers after the append.
        values.push(...records.map(({ value }) => Buffer.from(value)));
        if (broker.isBroken) throw new Error('no broker');
        return { baseOffset: values.length - records.length };
      },
    },
  } as unknown as Omit<IngestDeps, 'ordinary'>;
  const ordinary = new OrdinaryIngest(known, known.sessions, known.reports, clock);
  const tryIngest: OrdinaryIngest['tryIngest'] = (request, claim) => {
    const answer = isFast ? ordinary.tryIngest(request, claim) : undefined;
    if (answer !== undefined) taken += 1;
    return answer;
  };
  const deps = { ...known, ordinary: { tryIngest } } as IngestDeps;
  const tenant = { id: SESSION, monthlySoftQuota: 4, spread: 8 };
  const { switches = [], limits = null, buildIds } = options;
  const principal = { tenant, project: { id: KEY, switches, limits }, buildIds, revision } as never;
  return {
    send: (sent: unknown, { key = KEY, isLenient = options.isLenient ?? false } = {}) => {
      const body = Buffer.from(JSON.stringify(sent));
      const idempotency = idempotencyOf(key, body);
      return ingest(deps, { principal, body, idempotency, isLenient, isStrict: false, requestId: '' });
    },
    appended: () =>
      values.map((value) => ({ value, message: eventsAccepted.type.fromBuffer(value.subarray(5)) })),
    remembered: (body: unknown) => {
      const digest = sha256(Buffer.from(JSON.stringify(body)));
      return deps.replays.claim({ tenantId: SESSION, projectId: KEY, key: KEY, digest, indexes: [0] });
    },
    ...{ broker, clock, lookUp, sessions },
    used: () => used,
    sessionLookups: () => sessionLookups,
    /** Returns the number of requests that took the fast path. */
    taken: () => taken,
  };
}
