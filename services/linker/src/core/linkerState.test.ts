/** Tests the linker's state of a partition: its limits, and its changelog for a new owner. */
import { randomUUID } from 'node:crypto';
import { anEvent, aReportLink } from '@questlog/schemas/fixtures/builders';
import { NO_EPOCHS, type TrackedReport } from '@questlog/schemas/topics/linkerState';
import { expect, test } from 'vitest';
import { type Change, keyOf, LINK_OVERHEAD_BYTES } from './decision.ts';
import { LINKER_BOUNDS, LinkerState, positionEntry } from './linkerState.ts';

const SEEN = randomUUID();
const EVENT_IDS = [randomUUID(), randomUUID(), randomUUID()];

// Entries of different kinds can have the same name.
test('writes each change once with its latest value, and a new owner restores the same state', () => {
  const state = aState();
  const report = aTracked();
  const record = aReportLink();
  const session = { tenantId: randomUUID(), projectId: randomUUID(), sessionId: randomUUID() };
  const late = { ...session, fromMicros: 1n, toMicros: 2n, offset: 3 };
  const retraction = { record, offset: 4 };
  state.evolve([
    report.change,
    { entry: 'sessionLinks', key: report.key, atLeast: 2 },
    { entry: 'retraction', key: report.key, value: retraction },
    { entry: 'late', key: report.key, value: late },
    { entry: 'late', key: 'p/gone', value: late },
    { entry: 'late', key: 'p/gone', value: null },
    { entry: 'append', id: SEEN, arrivedAtMs: 5 },
  ]);
  const nothing = {
    report: null,
    retraction: null,
    late: null,
    appends: null,
    position: null,
    sessionLinks: null,
  };
  const told = state.drain();
  expect(told).toEqual([
    { key: `report/${report.key}`, entry: { ...nothing, report: report.value } },
    { key: `sessionLinks/${report.key}`, entry: { ...nothing, sessionLinks: { count: 2 } } },
    { key: `retraction/${report.key}`, entry: { ...nothing, retraction } },
    { key: `late/${report.key}`, entry: { ...nothing, late } },
    { key: 'late/p/gone', entry: null },
    { key: 'append/#0', entry: { ...nothing, appends: { ids: [SEEN], since: 5 } } },
  ]);
  expect(state.drain()).toEqual([]);
  const position = { events: 1, reportLinks: 2, ...NO_EPOCHS, eventsEpoch: 3, reportLinksUpToEpoch: 4 };
  expect(positionEntry(position)).toEqual({ ...nothing, position });

  const next = aState();
  for (const { key, entry } of told) if (entry !== null) next.restore(key, entry);
  for (const held of [state, next]) {
    expect([...held.reports]).toEqual([[report.key, report.value]]);
    expect([...held.retractions]).toEqual([[report.key, retraction]]);
    expect([...held.late]).toEqual([[report.key, late]]);
    expect(held.appends.has(SEEN)).toBe(true);
    expect([held.open.reports, held.trackedEventIds]).toEqual([1, 3]);
    const hasLinksLeft = (max: number) => held.hasLinksLeft(report.key, { ...record, maxSessionLinks: max });
    expect([1, 2, 3].map(hasLinksLeft)).toEqual([false, false, true]);
  }
  expect(next.drain()).toEqual([]);
});

test('opens reports up to the bounds of reports and of named events', () => {
  const state = aState({ openReports: 2, openEventIds: 5 });
  const [first, second] = [aTracked(), aTracked({}, { eventIds: [], inlineEventIds: [EVENT_IDS[0] ?? ''] })];
  state.evolve([first.change]);
  expect([state.canOpenReport, state.open.eventIds, state.trackedEventIds]).toEqual([true, 3, 3]);
  state.evolve([second.change]);
  expect([state.canOpenReport, state.open.eventIds, state.trackedEventIds]).toEqual([false, 4, 4]);
  state.evolve([first.gone]);
  expect([state.canOpenReport, state.open.reports, state.trackedEventIds]).toEqual([true, 1, 1]);
  state.evolve([aTracked({ phase: 'waiting' }).change, aTracked({ phase: 'spilled' }).change]);
  expect([state.open.reports, state.trackedEventIds]).toEqual([1, 7]);

  const named = aState({ openReports: 9, openEventIds: 4 });
  named.evolve([first.change]);
  expect(named.canOpenReport).toBe(true);
  named.evolve([second.change]);
  expect(named.canOpenReport).toBe(false);
});

test('defers copies of links up to the bound, until the lookup of their report is answered', () => {
  const state = aState({ deferredLinkBytes: 2 * (LINK_OVERHEAD_BYTES + 10) });
  const [one, other] = [aTracked(), aTracked()];
  const payload = Buffer.from('0123456789');
  const hold = (key: string): Change => {
    return {
      entry: 'held',
      key,
      link: { offset: 1, source: 'named', event: { ...anEvent({ payload }), receivedAt: 1 } },
    };
  };
  state.evolve([one.change, other.change, hold(one.key)]);
  expect(state.canDeferLinks).toBe(true);
  state.evolve([hold(one.key)]);
  expect(state.canDeferLinks).toBe(false);
  expect(state.deferredLinks.get(one.key)).toHaveLength(2);
  // The state keeps only copies, because the record's bytes may be reused.
  payload.fill('x');
  expect(state.deferredLinks.get(one.key)?.map(({ event }) => event.payload.toString())).toEqual([
    '0123456789',
    '0123456789',
  ]);
  state.evolve([other.change]);
  expect(state.canDeferLinks).toBe(false);
  state.evolve([one.change]);
  expect([state.canDeferLinks, state.deferredLinks.size]).toEqual([true, 0]);
  for (let i = 0; i < 2; i++) state.evolve([hold(other.key)]);
  expect(state.canDeferLinks).toBe(false);
});

test('a report is due by its phase: a check immediately, an ask at its time, a close at its end', () => {
  const state = aState();
  const report = aTracked({ phase: 'waiting', askAt: 5, closesAt: 9 });
  const due = (nowMs: number) =>
    [state.waiting, state.asking, state.closing].map((times) => times.due(nowMs).length);
  state.evolve([report.change]);
  expect([due(0), due(9)]).toEqual([
    [1, 0, 0],
    [1, 0, 0],
  ]);
  state.evolve([aTracked({ askAt: 5, closesAt: 9 }, report.value.record).change]);
  expect([due(4), due(5), due(8), due(9)]).toEqual([
    [0, 0, 0],
    [0, 1, 0],
    [0, 1, 0],
    [0, 1, 1],
  ]);
  state.evolve([aTracked({ askAt: null, closesAt: 9 }, report.value.record).change]);
  expect(due(9)).toEqual([0, 0, 1]);
  state.evolve([report.gone]);
  expect(due(9)).toEqual([0, 0, 0]);
});

test('finds due reports in any order of insertion', () => {
  const state = aState();
  const at = [7, 3, 5].map((askAt) => aTracked({ askAt }));
  const keys = (nowMs: number) =>
    state.asking.due(nowMs).map((key) => at.findIndex((one) => one.key === key));
  for (const { change } of at) {
    state.evolve([change]);
    expect(keys(2)).toEqual([]);
  }
  expect([keys(3), keys(6), keys(7)]).toEqual([[1], [1, 2], [1, 2, 0]]);
});

function aState(bounds: Partial<typeof LINKER_BOUNDS> = {}): LinkerState {
  return new LinkerState(0, 1, { ...LINKER_BOUNDS, ...bounds });
}

/** Returns a report that names three events. */
function aTracked(of: Partial<TrackedReport> = {}, record: Parameters<typeof aReportLink>[0] = {}) {
  const whole = aReportLink({
    inlineEventIds: EVENT_IDS.slice(0, 1),
    eventIds: EVENT_IDS.slice(1),
    ...record,
  });
  const key = keyOf(whole);
  const value: TrackedReport = { record: whole, offset: 0, phase: 'open', askAt: null, closesAt: 100, ...of };
  const change: Change = { entry: 'report', key, value };
  const gone: Change = { entry: 'report', key, value: null };
  return { key, value, change, gone };
}
