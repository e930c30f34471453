/** Tests which open reports are linked to the events of an append, including all edge cases. */
import { randomBytes, randomUUID } from 'node:crypto';
import { anEventsAccepted, aReportLink } from '@questlog/schemas/fixtures/builders';
import type { AcceptedEvent, EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { recordOf } from '@questlog/schemas/topics/eventsRecord';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { eventId } from '@questlog/schemas/uuid';
import { describe, expect, test } from 'vitest';
import { decideEvents, MAX_FAN_OUT_BYTES } from './decideEvents.ts';
import { type Change, DUE_NOW, keyOf, LINK_OVERHEAD_BYTES } from './decision.ts';
import { LINKER_BOUNDS, LinkerState } from './linkerState.ts';

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const MINUTE_MS = 60_000;
const [TENANT, PROJECT, SESSION] = [randomUUID(), randomUUID(), randomUUID()];
const OFFSET = 7;
const HELD_BYTES = 1_000;

const micros = (millis: number): bigint => BigInt(millis) * 1000n;

describe('which events a report is linked to', () => {
  const inline = eventId(NOW_MS, 0, randomBytes(8));
  const named = eventId(NOW_MS, 0, randomBytes(8));
  const [from, to] = [micros(NOW_MS - 10 * MINUTE_MS), micros(NOW_MS + MINUTE_MS)];
  const far = micros(NOW_MS - 60 * MINUTE_MS);

  test.each<
    [what: string, event: Partial<AcceptedEvent>, of: Partial<EventsAccepted>, source: string | null]
  >([
    ['an event of its session at the start of the window', { occurredAt: from }, {}, 'session'],
    ['no event before the window', { occurredAt: from - 1n }, {}, null],
    ['an event at the end of the window', { occurredAt: to }, {}, 'session'],
    ['no event after the window', { occurredAt: to + 1n }, {}, null],
    ['no event without a session', { sessionId: null }, {}, null],
    ['no event of another session', { sessionId: randomUUID() }, {}, null],
    ['no event of a session with the same id in another project', {}, { projectId: randomUUID() }, null],
    ['no event of a session with the same id of another tenant', {}, { tenantId: randomUUID() }, null],
    ['a named event, at any time', { id: named, sessionId: null, occurredAt: far }, {}, 'named'],
    ['an inline event', { id: inline, occurredAt: far }, {}, 'inline'],
    ['a named event of its session, once', { id: named }, {}, 'named'],
    [
      'no event of another project with the same id',
      { id: named, sessionId: null },
      { projectId: randomUUID() },
      null,
    ],
  ])('%s', (_, event, of, source) => {
    const record = aReport({ inlineEventIds: [inline], eventIds: [named] });
    const message = anAppend([event], of);
    const { links, notices } = decide(aState([record]), message);
    expect(notices).toEqual([]);
    expect(links).toEqual(
      source === null
        ? []
        : [expect.objectContaining({ kind: 'linked', source, reportId: record.reportId, changedAt: NOW_MS })],
    );
    for (const link of links)
      expect(link.event).toMatchObject({ ...message.events[0], receivedAt: message.receivedAt });
  });
});

test('a duplicate append makes no links', () => {
  const state = aState([aReport()]);
  const message = anAppend([{}]);
  const first = decide(state, message);
  expect(first.links).toHaveLength(1);
  state.evolve(first.changes);
  expect(decide(state, message)).toEqual({ links: [], notices: [], changes: [] });
});

test('an append that returns after a truncation requests a lookup for reports that were filed meanwhile', () => {
  const report = aReport();
  const state = aState([report]);
  const message = anAppend([{}]);
  state.appends.add(message.appendId, NOW_MS);
  state.wasTruncated = true;
  const again = decide(state, message);
  expect(again.links).toEqual([]);
  expect(again.changes).toMatchObject([{ entry: 'report', key: keyOf(report), value: { askAt: DUE_NOW } }]);
});

test('an append replayed from the dead letters always requests lookups for open and for closed reports', () => {
  const report = aReport();
  const state = aState([report]);
  const message = anAppend([{ occurredAt: micros(NOW_MS) }]);
  const replay = () =>
    decideEvents(state, { offset: OFFSET, arrivedAtMs: NOW_MS, isReplayed: true }, recordOf(message), NOW_MS);
  const asked = [
    { entry: 'late', key: `${PROJECT}/${SESSION}` },
    { entry: 'report', key: keyOf(report), value: { askAt: DUE_NOW } },
  ];
  // The append was evicted from the cache, or the cache never contained the append because it could not be decoded.
  const forgotten = replay();
  expect(forgotten.links).toEqual([]);
  expect(forgotten.changes).toMatchObject([{ entry: 'append' }, ...asked]);
  state.appends.add(message.appendId, NOW_MS);
  expect(replay()).toMatchObject({ links: [], changes: asked });
});

test.each([
  [-1, 0],
  [0, 0],
  [1, 1],
])(
  'a keyed append whose key is %i ms younger than the oldest cached append is linked immediately: %i',
  (sinceMs, links) => {
    const record = aReport();
    const state = aState([record]);
    // Adds one append more than the maximum, so that earlier appends may have been evicted.
    for (let i = 0; i < 3; i++)
      state.evolve([{ entry: 'append', id: randomUUID(), arrivedAtMs: NOW_MS + i }]);
    expect(state.appends.since).toBe(NOW_MS);
    const key = eventId(NOW_MS + sinceMs, 0, randomBytes(8));
    const decision = decide(state, anAppend([{}], { idempotency: { key, digest: Buffer.alloc(32) } }));
    expect(decision.links).toHaveLength(links);
    // If the append may be a duplicate, a lookup makes the links instead.
    const asked = decision.changes.filter(({ entry }) => entry === 'report');
    expect(asked).toEqual(
      links === 1
        ? []
        : [
            expect.objectContaining({
              key: keyOf(record),
              value: expect.objectContaining({ askAt: DUE_NOW }),
            }),
          ],
    );
  },
);

test.each([
  [MAX_FAN_OUT_BYTES, 2],
  [MAX_FAN_OUT_BYTES + 2, 0],
])('links of %i bytes: %i are made immediately, more are left to a lookup', (bytes, count) => {
  const reports = [aReport(), aReport()];
  const payload = Buffer.alloc(bytes / 2 - LINK_OVERHEAD_BYTES);
  const { links, changes } = decide(aState(reports), anAppend([{ payload }]));
  expect(links).toHaveLength(count);
  expect(changes.filter(({ entry }) => entry === 'report')).toHaveLength(2 - count);
});

test('a link after a running lookup is deferred; above the bound of deferred bytes, the lookup is repeated', () => {
  const record = aReport();
  const state = aState([record], { askAt: NOW_MS + MINUTE_MS });
  const message = anAppend([{}]);
  const { links, changes } = decide(state, message);
  expect(links).toEqual([]);
  expect(changes).toContainEqual({
    entry: 'held',
    key: keyOf(record),
    link: {
      offset: OFFSET,
      source: 'session',
      event: { ...message.events[0], sampleRate: null, receivedAt: message.receivedAt },
    },
  });
  expect(changes.some(({ entry }) => entry === 'report')).toBe(false);

  state.evolve(decide(state, anAppend([{ payload: Buffer.alloc(HELD_BYTES) }])).changes);
  const full = decide(state, anAppend([{}]));
  expect(full.links).toEqual([]);
  expect(full.changes.map(({ entry }) => entry)).toEqual(['append', 'report']);
  expect(full.changes[1]).toMatchObject({ key: keyOf(record), value: { askAt: DUE_NOW } });
});

describe('events whose clock is off', () => {
  const OFF_MS = 5 * MINUTE_MS;
  const late = (changes: readonly Change[]) =>
    changes.flatMap((one) => (one.entry === 'late' ? [one.value] : []));

  test.each([
    ['more than five minutes before the log stored it', NOW_MS + 20 - OFF_MS, -1n, true],
    ['five minutes before the log stored it', NOW_MS + 20 - OFF_MS, 0n, false],
    ['five minutes after it was received', NOW_MS + OFF_MS, 0n, false],
    ['more than five minutes after it was received', NOW_MS + OFF_MS, 1n, true],
  ])('an event %s is looked up: %s', (_, atMs, more, isLate) => {
    const state = aState([]);
    const message = anAppend([{ occurredAt: micros(atMs) + more }, { sessionId: null, occurredAt: 0n }]);
    const { changes } = decide(state, message, NOW_MS + 20);
    const ofSession = { tenantId: TENANT, projectId: PROJECT, sessionId: SESSION, offset: OFFSET };
    const span = { fromMicros: micros(atMs) + more, toMicros: micros(atMs) + more };
    expect(late(changes)).toEqual(isLate ? [{ ...ofSession, ...span }] : []);
    expect(changes[0]).toEqual({ entry: 'append', id: message.appendId, arrivedAtMs: NOW_MS + 20 });
  });

  test('the time range of a late session grows with each event, in one append and in several', () => {
    const state = aState([]);
    const spans = [[5n, 3n, 4n], [9n], [6n], [1n]].map((times) => {
      const { changes } = decide(state, anAppend(times.map((occurredAt) => ({ occurredAt }))));
      state.evolve(changes);
      return late(changes).map((one) => [one?.fromMicros, one?.toMicros]);
    });
    expect(spans).toEqual([[[3n, 5n]], [[3n, 9n]], [[3n, 9n]], [[1n, 9n]]]);
  });

  test('are not looked up if no report has their session', () => {
    const state = aState([aReport()]);
    state.sessionsWithReports.complete();
    const times = (sessionId: string) =>
      late(decide(state, anAppend([{ sessionId, occurredAt: 0n }])).changes);
    expect([times(SESSION).length, times(randomUUID()).length]).toEqual([1, 0]);
  });
});

/** Returns the state of a single partition, which owns all events. */
function aState(
  reports: readonly ReportLink[],
  { askAt = null }: { askAt?: number | null } = {},
): LinkerState {
  const state = new LinkerState(0, 1, {
    ...LINKER_BOUNDS,
    appends: 2,
    deferredLinkBytes: HELD_BYTES,
  });
  state.evolve(
    reports.map((record) => ({
      entry: 'report',
      key: keyOf(record),
      value: { record, offset: 0, phase: 'open', askAt, closesAt: NOW_MS + 60 * MINUTE_MS },
    })),
  );
  return state;
}

function aReport(of: Partial<ReportLink> = {}): ReportLink {
  return aReportLink({
    tenantId: TENANT,
    projectId: PROJECT,
    sessionId: SESSION,
    sessionLane: 0,
    receivedAt: NOW_MS,
    ...of,
  });
}

function anAppend(
  events: readonly Partial<AcceptedEvent>[],
  of: Partial<EventsAccepted> = {},
): EventsAccepted {
  return anEventsAccepted({
    tenantId: TENANT,
    projectId: PROJECT,
    receivedAt: NOW_MS,
    ...of,
    events: events.map((event) => ({ sessionId: SESSION, ...event })),
  });
}

function decide(state: LinkerState, message: EventsAccepted, arrivedAtMs = NOW_MS) {
  return decideEvents(state, { offset: OFFSET, arrivedAtMs }, recordOf(message), NOW_MS);
}
