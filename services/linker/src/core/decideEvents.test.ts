/** Which reports get the events of an append, at each edge: one event too few is a report without its trail. */
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

describe('which events a report gets', () => {
  const inline = eventId(NOW_MS, 0, randomBytes(8));
  const named = eventId(NOW_MS, 0, randomBytes(8));
  const [from, to] = [micros(NOW_MS - 10 * MINUTE_MS), micros(NOW_MS + MINUTE_MS)];
  const far = micros(NOW_MS - 60 * MINUTE_MS);

  test.each<
    [what: string, event: Partial<AcceptedEvent>, of: Partial<EventsAccepted>, source: string | null]
  >([
    ['one of its session, as early as may be', { occurredAt: from }, {}, 'session'],
    ['one too early', { occurredAt: from - 1n }, {}, null],
    ['one as late as may be', { occurredAt: to }, {}, 'session'],
    ['one too late', { occurredAt: to + 1n }, {}, null],
    ['one without a session', { sessionId: null }, {}, null],
    ['one of another session', { sessionId: randomUUID() }, {}, null],
    ['one of this session’s id in another project', {}, { projectId: randomUUID() }, null],
    ['one of this session’s id at another tenant', {}, { tenantId: randomUUID() }, null],
    ['one that it names, whenever it was', { id: named, sessionId: null, occurredAt: far }, {}, 'named'],
    ['one that it brought', { id: inline, occurredAt: far }, {}, 'inline'],
    ['one that it names and that is of its session, once', { id: named }, {}, 'named'],
    [
      'one that another project’s event is named like',
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

test('an append that was seen gives no link a second time', () => {
  const state = aState([aReport()]);
  const message = anAppend([{}]);
  const first = decide(state, message);
  expect(first.links).toHaveLength(1);
  state.evolve(first.changes);
  expect(decide(state, message)).toEqual({ links: [], notices: [], changes: [] });
});

test('an append that a cut of the log took away and that comes again is looked up for the reports of meanwhile', () => {
  const report = aReport();
  const state = aState([report]);
  const message = anAppend([{}]);
  state.appends.add(message.appendId, NOW_MS);
  state.wasTruncated = true;
  const again = decide(state, message);
  expect(again.links).toEqual([]);
  expect(again.changes).toMatchObject([{ entry: 'report', key: keyOf(report), value: { askAt: DUE_NOW } }]);
});

test('an append replayed from the dead letters is looked up, whoever has seen it: for open reports, and for such as were let go', () => {
  const report = aReport();
  const state = aState([report]);
  const message = anAppend([{ occurredAt: micros(NOW_MS) }]);
  const replay = () =>
    decideEvents(state, { offset: OFFSET, arrivedAtMs: NOW_MS, isReplayed: true }, recordOf(message), NOW_MS);
  const asked = [
    { entry: 'late', key: `${PROJECT}/${SESSION}` },
    { entry: 'report', key: keyOf(report), value: { askAt: DUE_NOW } },
  ];
  // Seen so long ago that nobody remembers; or never, since it could not be read.
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
  'a keyed append whose key was made %i ms after the oldest append that is remembered is linked at once: %i',
  (sinceMs, links) => {
    const record = aReport();
    const state = aState([record]);
    // One more than the bound: others may have been forgotten before these.
    for (let i = 0; i < 3; i++)
      state.evolve([{ entry: 'append', id: randomUUID(), arrivedAtMs: NOW_MS + i }]);
    expect(state.appends.since).toBe(NOW_MS);
    const key = eventId(NOW_MS + sinceMs, 0, randomBytes(8));
    const decision = decide(state, anAppend([{}], { idempotency: { key, digest: Buffer.alloc(32) } }));
    expect(decision.links).toHaveLength(links);
    // The look-up tells what the repeat was the first to bring.
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
])('links of %i bytes are made at once: %i; more are left to a look-up', (bytes, count) => {
  const reports = [aReport(), aReport()];
  const payload = Buffer.alloc(bytes / 2 - LINK_OVERHEAD_BYTES);
  const { links, changes } = decide(aState(reports), anAppend([{ payload }]));
  expect(links).toHaveLength(count);
  expect(changes.filter(({ entry }) => entry === 'report')).toHaveLength(2 - count);
});

test('behind a look-up a link is held, and without room to hold it the look-up is made again', () => {
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

describe('events off the clock', () => {
  const OFF_MS = 5 * MINUTE_MS;
  const late = (changes: readonly Change[]) =>
    changes.flatMap((one) => (one.entry === 'late' ? [one.value] : []));

  test.each([
    ['earlier than five minutes before the log took it', NOW_MS + 20 - OFF_MS, -1n, true],
    ['five minutes before the log took it', NOW_MS + 20 - OFF_MS, 0n, false],
    ['five minutes after it was received', NOW_MS + OFF_MS, 0n, false],
    ['later than five minutes after it was received', NOW_MS + OFF_MS, 1n, true],
  ])('one %s: looked up: %s', (_, atMs, more, isLate) => {
    const state = aState([]);
    const message = anAppend([{ occurredAt: micros(atMs) + more }, { sessionId: null, occurredAt: 0n }]);
    const { changes } = decide(state, message, NOW_MS + 20);
    const ofSession = { tenantId: TENANT, projectId: PROJECT, sessionId: SESSION, offset: OFFSET };
    const span = { fromMicros: micros(atMs) + more, toMicros: micros(atMs) + more };
    expect(late(changes)).toEqual(isLate ? [{ ...ofSession, ...span }] : []);
    expect(changes[0]).toEqual({ entry: 'append', id: message.appendId, arrivedAtMs: NOW_MS + 20 });
  });

  test('the times of a session to look up grow with each event, in one append and over several', () => {
    const state = aState([]);
    const spans = [[5n, 3n, 4n], [9n], [6n], [1n]].map((times) => {
      const { changes } = decide(state, anAppend(times.map((occurredAt) => ({ occurredAt }))));
      state.evolve(changes);
      return late(changes).map((one) => [one?.fromMicros, one?.toMicros]);
    });
    expect(spans).toEqual([[[3n, 5n]], [[3n, 9n]], [[3n, 9n]], [[1n, 9n]]]);
  });

  test('are not looked up once no report can have their session', () => {
    const state = aState([aReport()]);
    state.sessionsWithReports.complete();
    const times = (sessionId: string) =>
      late(decide(state, anAppend([{ sessionId, occurredAt: 0n }])).changes);
    expect([times(SESSION).length, times(randomUUID()).length]).toEqual([1, 0]);
  });
});

/** One partition, which owns all. */
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
