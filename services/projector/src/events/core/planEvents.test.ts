import { randomUUID } from 'node:crypto';
import { ErasedData } from '@questlog/schemas/erased';
import { anErasure, anEventsRecord } from '@questlog/schemas/fixtures/builders';
import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { hiddenCountsOf, visibleEvents } from '../../visible.ts';
import {
  dropDuplicates,
  EventTypeCache,
  EXCLUSIONS,
  excludedCountsOf,
  firstStoredEvent,
  hasRows,
  MAX_RECENT_APPENDS,
  minuteCountsOf,
  nameOfExcludedKey,
  nameOfMinuteKey,
  nameOfQuotaKey,
  quotaKeyOf,
  RecentAppends,
  Rollup,
  unreadableCountsOf,
} from './planEvents.ts';

test('drops a duplicate of an earlier append, and a duplicate in the same block', () => {
  const [first, second, third] = [anEventsRecord(), anEventsRecord(), anEventsRecord()];
  const records = [first, second, second, third, first].map((message, offset) => ({ offset, message }));
  const kept = dropDuplicates(records, ({ appendId }) => appendId === third.appendId);
  expect(kept.map(({ offset }) => offset)).toEqual([0, 1]);
});

test('the month of the quota is the UTC month of receivedAt', () => {
  const lastMoment = anEventsRecord({ receivedAt: Date.UTC(2026, 11, 1) - 1 });
  const firstMoment = anEventsRecord({ receivedAt: Date.UTC(2026, 11, 1) });
  expect(quotaKeyOf(lastMoment).monthDay * 86_400_000).toBe(Date.UTC(2026, 10, 1));
  expect(quotaKeyOf(firstMoment).monthDay * 86_400_000).toBe(Date.UTC(2026, 11, 1));
});

test('counts per minute and type', () => {
  const message = anEventsRecord({
    receivedAt: Date.UTC(2026, 10, 21, 12, 34, 59, 999),
    events: [{ eventType: 'a' }, { eventType: 'b' }, { eventType: 'a' }],
  });
  expect(
    minuteCountsOf(message, new EventTypeCache()).map(({ key, events }) => [
      key.minuteS * 1000,
      key.eventType,
      events,
    ]),
  ).toEqual([
    [Date.UTC(2026, 10, 21, 12, 34), 'a', 2],
    [Date.UTC(2026, 10, 21, 12, 34), 'b', 1],
  ]);
});

test('recent appends: contains the given ids and is complete', () => {
  const recent = new RecentAppends(['a', 'b']);
  expect(recent.has('a')).toBe(true);
  expect(recent.has('c')).toBe(false);
  expect(recent.isComplete).toBe(true);
});

test('recent appends: evicts the oldest id at the bound and is then incomplete', () => {
  const recent = new RecentAppends([]);
  for (let i = 0; i < MAX_RECENT_APPENDS; i++) recent.add(String(i));
  expect([recent.has('0'), recent.isComplete]).toEqual([true, true]);
  recent.add(String(MAX_RECENT_APPENDS));
  expect(recent.has('0')).toBe(false);
  expect(recent.has('1')).toBe(true);
  expect(recent.isComplete).toBe(false);
});

test('recent appends: stores a duplicate id once', () => {
  const recent = new RecentAppends(['a', 'a']);
  for (let i = 1; i < MAX_RECENT_APPENDS; i++) recent.add(String(i));
  expect([recent.has('a'), recent.isComplete]).toEqual([true, true]);
});

test('applying records again changes nothing, whatever the offset of a restart', () => {
  const records = fc.array(
    fc.record({ key: fc.constantFrom('a', 'b'), events: fc.integer({ min: 1, max: 9 }) }),
    { maxLength: 30 },
  );
  fc.assert(
    fc.property(records, fc.array(fc.nat(30)), (log, restarts) => {
      const table = new Map<string, { count: number; lastOffset: number }>();
      for (const from of [...restarts.map((at) => Math.min(at, log.length)), 0]) {
        // A restart begins at or below the stored offset, but never above this offset, because offsets are committed last.
        const reached = Math.max(-1, ...[...table.values()].map(({ lastOffset }) => lastOffset));
        const rollup = new Rollup<string>((key) => key);
        for (const key of ['a', 'b']) rollup.load(key, table.get(key));
        log.forEach(({ key, events }, offset) => {
          if (offset >= Math.min(from, reached + 1)) rollup.add(key, offset, events);
        });
        for (const { key, count, lastOffset } of rollup.drain()) table.set(key, { count, lastOffset });
      }
      for (const key of ['a', 'b']) {
        const truth = log.filter((record) => record.key === key).reduce((sum, { events }) => sum + events, 0);
        expect(table.get(key)?.count ?? 0).toBe(truth);
      }
    }),
  );
});

test('throws for a count that was not loaded', () => {
  expect(() => new Rollup<string>((key) => key).add('a', 0, 1)).toThrow(/not loaded/);
});

test('recent appends: is incomplete if the ids were read up to the bound', () => {
  const ids = (count: number) => Array.from({ length: count }, (_, i) => String(i));
  expect(new RecentAppends(ids(MAX_RECENT_APPENDS - 1)).isComplete).toBe(true);
  expect(new RecentAppends(ids(MAX_RECENT_APPENDS)).isComplete).toBe(false);
});

test('returns each changed count once, and clears counts with the length of their names', () => {
  const rollup = new Rollup<string>((key) => key);
  const sizes = () => [rollup.size, rollup.characters];
  rollup.load('abc', undefined);
  rollup.load('abc', { count: 2, lastOffset: 1 });
  rollup.load('d', undefined);
  expect([sizes(), rollup.has('abc'), rollup.drain()]).toEqual([[2, 4], true, []]);
  rollup.add('abc', 1, 5);
  expect(rollup.drain()).toEqual([]);
  rollup.add('abc', 2, 5);
  rollup.add('d', 0, 1);
  const rows = [
    { key: 'abc', count: 7, weight: 7, lastOffset: 2 },
    { key: 'd', count: 1, weight: 1, lastOffset: 0 },
  ];
  expect([rollup.drain(), rollup.drain()]).toEqual([rows, []]);
  rollup.clear();
  expect([sizes(), rollup.has('abc')]).toEqual([[0, 0], false]);
});

test('a sampled event has the weight of the events that it represents, also with other events and with stored counts', () => {
  const message = anEventsRecord({
    events: [{ eventType: 'a', sampleRate: 0.25 }, { eventType: 'a' }, { eventType: 'a', sampleRate: null }],
  });
  const [count] = minuteCountsOf(message, new EventTypeCache());
  expect(count).toMatchObject({ events: 3, weight: 6 });
  const rollup = new Rollup<string>((key) => key);
  rollup.load('a', { count: 10, weight: 40, lastOffset: 4 });
  rollup.add('a', 4, 3, 6);
  rollup.add('a', 5, 3, 6);
  expect(rollup.drain()).toEqual([{ key: 'a', count: 13, weight: 46, lastOffset: 5 }]);
});

test('counts tenants, projects, minutes, and types separately', () => {
  const message = anEventsRecord();
  const key = { tenantId: message.tenantId, projectId: message.projectId, minuteS: 60, eventType: 'a' };
  const others = [{ tenantId: 't' }, { projectId: 'p' }, { minuteS: 120 }, { eventType: 'b' }];
  const names = [key, ...others.map((one) => ({ ...key, ...one }))].map(nameOfMinuteKey);
  const quota = quotaKeyOf(message);
  names.push(...[quota, { ...quota, tenantId: 't' }, { ...quota, monthDay: 1 }].map(nameOfQuotaKey));
  expect(new Set(names).size).toBe(8);
  expect(minuteCountsOf(message, new EventTypeCache())[0]?.key).toMatchObject({
    tenantId: message.tenantId,
    projectId: message.projectId,
  });
  expect(quota.tenantId).toBe(message.tenantId);
});

test('counts records without rows in the minute of their tenant, and under zeros if no table can store the values', () => {
  const minuteS = Date.UTC(2026, 10, 21, 12, 34) / 1000;
  const message = anEventsRecord({ receivedAt: minuteS * 1000 + 59_999, events: [{}, {}] });
  const { tenantId } = message;
  const counted = (why: 'repeated' | 'dead') =>
    excludedCountsOf({ offset: 7, message }, why).map(({ key, count }) => [key.what, count]);
  expect([...counted('repeated'), ...counted('dead')]).toEqual([
    ['repeated_records', 1],
    ['repeated_events', 2],
    ['dead_records', 1],
    ['dead_events', 2],
  ]);
  const lost = (key: string | null, timestampMs: number) =>
    unreadableCountsOf({ offset: 8, key, timestampMs }).map((one) => [
      one.offset,
      one.count,
      ...Object.values(one.key),
    ]);
  const both = (tenant: string, second: number) => [
    [8, 1, tenant, second, 'dead_records'],
    [8, 1, tenant, second, 'unreadable_records'],
  ];
  const nobody = '00000000-0000-0000-0000-000000000000';
  expect(lost(tenantId.toUpperCase(), message.receivedAt)).toEqual(both(tenantId, minuteS));
  for (const key of [null, 'x']) expect(lost(key, 60_000)).toEqual(both(nobody, 60));
  const end = 2 ** 32 * 1000;
  expect([-1, end + 59_999, end - 60_000].map((ms) => lost(tenantId, ms)[0]?.[3])).toEqual([
    0,
    0,
    2 ** 32 - 76,
  ]);
  const names = EXCLUSIONS.map((what) => nameOfExcludedKey({ tenantId, minuteS, what }));
  names.push(nameOfExcludedKey({ tenantId, minuteS: 0, what: 'dead_events' }));
  names.push(nameOfExcludedKey({ tenantId: nobody, minuteS, what: 'dead_events' }));
  expect(new Set(names).size).toBe(7);
});

test('marks the erased events of a record, which has rows while at least one event is left', async () => {
  const records = recordsOf([GONE, WHOLE, GONE], [GONE, GONE], [WHOLE]);
  const erased = new ErasedData();
  const visible = { cached: erased, latest: async () => erased };
  expect(await visibleEvents(visible, records)).toBe(records);
  erased.add(AN_ERASURE);
  const kept = await visibleEvents(visible, records);
  expect(kept.map(hasRows)).toEqual([true, false, true]);
  expect(kept[2]).toBe(records[2]);
  expect(
    kept.flatMap(hiddenCountsOf).map(({ offset, events, erasureId }) => [offset, events, erasureId]),
  ).toEqual([
    [0, 2, 'erasure'],
    [1, 2, 'erasure'],
  ]);
  // The counts are unchanged.
  expect(kept.map((record) => record.message.count)).toEqual([3, 2, 1]);
});

test('a duplicate is recognized by its first event that is not erased', async () => {
  const records = recordsOf([WHOLE], [WHOLE, GONE], [GONE, GONE, WHOLE], [GONE, GONE]);
  expect(records.map(firstStoredEvent)).toEqual([0, 0, 0, 0]);
  const erased = new ErasedData();
  const visible = { cached: erased, latest: async () => erased };
  erased.add(AN_ERASURE);
  expect((await visibleEvents(visible, records)).map(firstStoredEvent)).toEqual([0, 0, 2, undefined]);
});

test('the erasure of a project covers all events of a record, also events without a session', async () => {
  const erased = new ErasedData();
  const visible = { cached: erased, latest: async () => erased };
  erased.add(anErasure({ ...OWNER, requestedAt: Date.UTC(2100, 0) }));
  const kept = await visibleEvents(visible, recordsOf([null, WHOLE]));
  expect(kept.flatMap(hiddenCountsOf).map(({ events }) => events)).toEqual([2]);
  expect(kept.map(hasRows)).toEqual([false]);
});

test('counts an event under its own type, also after similar types', () => {
  // The last two types use the same slot of the cache, and one type is a prefix of the other type.
  const alike = ['', 'a', 'ä', 'axb', 'ayb', 'axxb', 'axyb', 'ab', `ab${'x'.repeat(16)}a`];
  const long = [62, 63, 64].flatMap((length) => ['x', 'y'].map((one) => `a${one.repeat(length)}b`));
  const eventTypes = [...alike, ...long];
  const inTurn = [...eventTypes, ...eventTypes.toReversed(), ...eventTypes];
  expect(toldOf(new EventTypeCache(), inTurn).texts).toEqual(inTurn);
});

test('decodes a type once for all its events; a type of more than 64 bytes is not cached', () => {
  const made = [1, 64, 65].map(
    (length) => toldOf(new EventTypeCache(), Array(9).fill('x'.repeat(length))).made,
  );
  expect(made).toEqual([1, 1, 9]);
});

test('many different types do not fill the projector’s memory', () => {
  const letters = [...'abcdefghijklmnopqrstuvwxyz'];
  const eventTypes = letters.flatMap((first) => letters.map((last) => first + last));
  const types = new EventTypeCache();
  expect(toldOf(types, eventTypes).made).toBe(eventTypes.length);
  expect(toldOf(types, eventTypes).made).toBeGreaterThanOrEqual(eventTypes.length - 251);
});

/** Returns the types of these events, and the number of strings that were decoded. */
function toldOf(types: EventTypeCache, eventTypes: readonly string[]) {
  // Makes the bytes around the types different.
  const events = eventTypes.map((eventType, i) => ({ eventType, occurredAt: BigInt(i) * 12_345n }));
  const record = anEventsRecord({ events });
  const make = vi.spyOn(record, 'eventType');
  const texts = eventTypes.map((_, event) => types.typeOf(record, event));
  return { texts, made: make.mock.calls.length };
}

const OWNER = { tenantId: randomUUID(), projectId: randomUUID() };
const [GONE, WHOLE] = [randomUUID(), randomUUID()];
const SESSIONS = [{ projectId: OWNER.projectId, ids: [GONE] }];
const AN_ERASURE = anErasure({ id: 'erasure', tenantId: OWNER.tenantId, sessions: SESSIONS });

/** Returns records. A parameter contains the sessions of the events of one record. */
function recordsOf(...records: readonly (string | null)[][]) {
  return records.map((sessions, offset) => ({
    offset,
    message: anEventsRecord({ ...OWNER, events: sessions.map((sessionId) => ({ sessionId })) }),
  }));
}
