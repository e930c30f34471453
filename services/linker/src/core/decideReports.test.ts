/** Tests the decisions on records of the report-links topic and on the answers of lookups. */
import { randomUUID } from 'node:crypto';
import { anEvent, aReportLink } from '@questlog/schemas/fixtures/builders';
import { partitionOf } from '@questlog/schemas/partition';
import { closesAtMs } from '@questlog/schemas/reportWindow';
import type { TrackedReport } from '@questlog/schemas/topics/linkerState';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { eventId } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { decideAnswer, SPILLED_LOOK_UP_INTERVAL_MS } from './decideAnswers.ts';
import { decideReportLink, removeHidden } from './decideReports.ts';
import { type Change, DUE_NOW, keyOf, newLink } from './decision.ts';
import type { Answer, FoundEvent, ProjectedReport } from './jobs.ts';
import { LINKER_BOUNDS, LinkerState } from './linkerState.ts';

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const LOG = 'this-log';
const OFFSET = 7;
const PARTITIONS = 4;
const TENANT = randomUUID();
const HOME = partitionOf(TENANT, 0, PARTITIONS);
const NEXT = (HOME + 1) % PARTITIONS;
const CONTENT = { content: {} as ReportLink['content'], requestDigest: Buffer.alloc(32) };
/** Id of an event in lane 1. */
const THERE = eventId(NOW_MS, 1, Buffer.alloc(8));
const HERE = eventId(NOW_MS, 0, Buffer.alloc(8, 1));

test('tracks a report at its home without its content, and forwards it home from other partitions', () => {
  const record = aReport({ ...CONTENT });
  expect(taken(aState(), record)).toEqual({
    links: [],
    notices: [],
    changes: [tracked(bare(record), { phase: 'waiting', askAt: null })],
  });
  const away = aState([], { partition: NEXT });
  expect(taken(away, record)).toEqual({ links: [], changes: [], notices: [{ partition: HOME, record }] });
  expect(taken(away, { ...record, kind: 'retracted' }).notices).toHaveLength(1);
  expect(taken(aState(), { ...record, kind: 'unresolved' })).toEqual({ links: [], notices: [], changes: [] });
});

test('the retraction of a link has a later version than the link, in any order of arrival', () => {
  const [report, event] = [aReport(), { ...anEvent(), receivedAt: 1 }];
  const versions = (['linked', 'unlinked'] as const).map(
    (kind) => newLink(kind, report, event, 'session', NOW_MS).version,
  );
  expect(versions[1]).toBeGreaterThan(versions[0] ?? Infinity);
});

test('removes erased reports and retractions, and nothing else', () => {
  const [erased, kept, back] = [aReport(), aReport(), aReport()];
  const state = aState([tracked(erased, {}), tracked(kept, {})]);
  state.evolve(taken(state, { ...back, kind: 'retracted' }).changes);
  const gone = [erased, back].map(({ reportId }) => reportId);
  expect(removeHidden(state, ({ reportId }) => !gone.includes(reportId))).toEqual([
    { entry: 'report', key: keyOf(erased), value: null },
    { entry: 'retraction', key: keyOf(back), value: null },
  ]);
});

test('matches a copy immediately; above the bound, only looks it up', () => {
  const record = aReport({ ...CONTENT, isForwarded: true });
  expect(taken(aState([], { partition: NEXT }), record).changes).toEqual([tracked(bare(record), {})]);
  const full = aState([], { partition: NEXT, openReports: 0 });
  const without = { ...bare(record), inlineEventIds: [], eventIds: [] };
  expect(taken(full, record).changes).toEqual([tracked(without, { phase: 'spilled' })]);
  const retried = { ...record, kind: 'retried' as const };
  expect(taken(aState(), retried).changes).toEqual([tracked(bare(retried), { closesAt: NOW_MS })]);
});

test('ignores a tracked report; a retry is looked up again, also by the other owners', () => {
  const record = aReport({ sessionLane: 1 });
  const open = aState([tracked(record, { askAt: null })]);
  expect(taken(open, record)).toEqual({ links: [], notices: [], changes: [] });
  // A retry can lack the lane of the session.
  const again = { ...record, kind: 'retried' as const, sessionLane: null, content: null };
  const copy = { ...again, sessionLane: 1, isForwarded: true };
  expect(taken(open, again)).toEqual({
    links: [],
    notices: [{ partition: NEXT, record: copy }],
    changes: [tracked(record, { askAt: DUE_NOW })],
  });
  expect(taken(open, { ...again, isForwarded: true }).notices).toEqual([]);
  const waiting = aState([tracked(record, { phase: 'waiting', askAt: null })]);
  for (const more of [record, again])
    expect(taken(waiting, more)).toEqual({ links: [], notices: [], changes: [] });
});

test('a waiting report that returns at a lower offset after a truncation waits at its new offset', () => {
  const record = aReport();
  const waiting = aState([tracked(record, { phase: 'waiting', askAt: null, offset: OFFSET + 2 })]);
  const back = tracked(bare(record), { phase: 'waiting', askAt: null });
  expect(taken(waiting, record).changes).toEqual([back]);
  expect(taken(waiting, { ...record, isForwarded: true }).changes).toEqual([]);
  expect(taken(waiting, { ...record, kind: 'retried' }).changes).toEqual([]);
});

test('a retraction closes its report and is looked up once, whether the report is tracked or not', () => {
  const record = { ...aReport(), kind: 'retracted' as const, ...CONTENT };
  const pending: Change = {
    entry: 'retraction',
    key: keyOf(record),
    value: { record: { ...bare(record), inlineEventIds: [], eventIds: [] }, offset: OFFSET },
  };
  expect(taken(aState(), record).changes).toEqual([pending]);
  const gone: Change = { entry: 'report', key: keyOf(record), value: null };
  expect(taken(aState([tracked(record, {})]), record).changes).toEqual([gone, pending]);
  expect(taken(aState([pending]), record).changes).toEqual([]);
});

test.each<[what: string, isGood: boolean, of: Partial<ProjectedReport>, record: Partial<ReportLink>]>([
  ['the first of its id', true, {}, {}],
  ['the second of its id', false, { offset: OFFSET - 1 }, {}],
  ['a report that was appended again after a truncation', true, { offset: OFFSET + 1 }, {}],
  ['a report whose row survived a truncation', true, { logId: 'before the truncation' }, {}],
  [
    'a report whose row survived a truncation, retracted',
    false,
    { logId: 'before the truncation', isRetracted: true },
    {},
  ],
  ['a report that was retracted meanwhile', true, { isRetracted: true }, {}],
  ['a retried report', true, { offset: 1, logId: 'earlier' }, { kind: 'retried' }],
  ['a retried report that was retracted', false, { isRetracted: true }, { kind: 'retried' }],
])('%s is opened: %s, with the projected lane, and its other owners get copies', (_, isGood, of, more) => {
  const record = aReport({ sessionLane: null, ...more });
  const waiting = tracked(record, { phase: 'waiting', askAt: null });
  const state = aState([waiting]);
  const known = new Map([[keyOf(record), aKnown({ ...record, sessionLane: 1 }, of)]]);
  const reports = new Map([[keyOf(record), state.reports.get(keyOf(record)) ?? never()]]);
  const { notices, changes } = answer(state, { kind: 'check', reports, projected: known });
  const whole = { ...record, sessionLane: 1 };
  const gone: Change = { ...waiting, value: null };
  const closesAt = record.kind === 'retried' ? NOW_MS : closesAtMs(record);
  expect(changes).toEqual(isGood ? [gone, tracked(whole, { closesAt })] : [gone]);
  expect(notices).toEqual(
    isGood ? [{ partition: NEXT, record: { ...whole, content: null, isForwarded: true } }] : [],
  );
  // The entry of the report changed after the lookup started, so the report is looked up again.
  state.evolve([waiting, tracked(record, {})]);
  expect(answer(state, { kind: 'check', reports, projected: known })).toEqual({
    links: [],
    notices: [],
    changes: [],
  });
});

test('a report of an unregistered session keeps its named events; a report of other partitions is not tracked here', () => {
  const record = aReport({ eventIds: [THERE], inlineEventIds: [] });
  const state = aState([tracked(record, { phase: 'waiting', askAt: null })]);
  const known = new Map([[keyOf(record), aKnown({ ...record, sessionLane: null })]]);
  const { notices, changes } = answer(state, {
    kind: 'check',
    reports: new Map(state.reports),
    projected: known,
  });
  expect(changes.map(({ entry }) => entry)).toEqual(['report']);
  expect(notices).toMatchObject([{ partition: NEXT, record: { sessionId: null, sessionLane: null } }]);
  const unknown = answer(state, { kind: 'check', reports: new Map(state.reports), projected: new Map() });
  expect([unknown.notices, unknown.changes.length]).toEqual([[], 1]);
});

test.each<[what: string, isValid: boolean, of: Partial<ProjectedReport> | null, isForwarded: boolean]>([
  ['after its report', true, {}, false],
  ['before its report', false, { offset: OFFSET }, false],
  ['of a report in an earlier log', true, { logId: 'earlier', offset: OFFSET }, false],
  ['that the home partition has checked', true, { offset: OFFSET }, true],
  ['without a report', false, null, false],
])('a retraction %s retracts links: %s', (_, isValid, of, isForwarded) => {
  const record = { ...aReport(), kind: 'retracted' as const, isForwarded };
  const key = keyOf(record);
  const retractions = new Map([[key, { record, offset: OFFSET }]]);
  const known = new Map(
    of === null ? [] : [[key, aKnown({ ...record, sessionLane: 1 }, { offset: 1, ...of })]],
  );
  const found = [aFound(record)];
  const some = answer(aState(), { kind: 'unlink', retractions, projected: known, found, isComplete: false });
  expect(some.links).toMatchObject(
    isValid ? [{ kind: 'unlinked', reportId: record.reportId, changedAt: NOW_MS }] : [],
  );
  expect([some.notices, some.changes]).toEqual([[], []]);
  const all = answer(aState(), { kind: 'unlink', retractions, projected: known, found, isComplete: true });
  expect(all.links).toEqual(some.links);
  expect(all.changes).toEqual([{ entry: 'retraction', key, value: null }]);
  expect(all.notices.map(({ partition }) => partition)).toEqual(isValid && !isForwarded ? [NEXT] : []);
});

test.each(['ask', 'close'] as const)(
  'the answer of an %s links the found events and the deferred events, and no others',
  (kind) => {
    const [record, gone] = [aReport(), aReport()];
    const state = aState([tracked(record, { askAt: 1, phase: 'spilled' }), tracked(gone, {})]);
    const reports = new Map(state.reports);
    const held = (offset: number): Change => {
      const event = { ...anEvent({ id: eventId(NOW_MS, offset, Buffer.alloc(8)) }), receivedAt: 1 };
      return { entry: 'held', key: keyOf(record), link: { offset, event, source: 'session' } };
    };
    state.evolve([held(4), held(5), { entry: 'report', key: keyOf(gone), value: null }]);
    const missing = new Map([
      [keyOf(record), [HERE]],
      [keyOf(gone), [HERE]],
    ]);
    const found = [aFound(record), aFound(gone), aFound(aReport())];
    const asked = { kind, reports, found, below: 5, missing, linkCounts: new Map() };
    const part = answer(state, { ...asked, isComplete: false });
    expect(part.links.map(({ event }) => event.id)).toEqual([found[0]?.event.id]);
    expect([part.changes, part.notices]).toEqual([[], []]);

    const { links, changes, notices } = answer(state, { ...asked, isComplete: true });
    const behind = eventId(NOW_MS, 5, Buffer.alloc(8));
    expect(links.map(({ kind, event, reportId }) => [kind, event.id, reportId])).toEqual([
      ['linked', found[0]?.event.id, record.reportId],
      ['linked', behind, record.reportId],
    ]);
    const next = tracked(record, { askAt: NOW_MS + SPILLED_LOOK_UP_INTERVAL_MS, phase: 'spilled' });
    expect(changes).toEqual([kind === 'ask' ? next : { ...next, value: null }]);
    const note = {
      kind: 'unresolved',
      receivedAt: NOW_MS,
      inlineEventIds: [],
      eventIds: [HERE],
      requestDigest: null,
    };
    const unresolved = [{ partition: HOME, record: { ...record, ...note, isForwarded: true } }];
    expect(notices).toEqual(kind === 'ask' ? [] : unresolved);
  },
);

test('an open report is matched after its lookup; a closed report without missing events is not reported', () => {
  const record = aReport();
  const state = aState([tracked(record, {})]);
  const asked = {
    reports: new Map(state.reports),
    found: [],
    below: 0,
    missing: new Map(),
    linkCounts: new Map(),
    isComplete: true,
  };
  expect(answer(state, { kind: 'ask', ...asked }).changes).toEqual([tracked(record, { askAt: null })]);
  expect(answer(state, { kind: 'close', ...asked }).notices).toEqual([]);
});

test('late events are linked, but not to a report with a pending retraction: its session waits', () => {
  const [record, retracted] = [aReport(), aReport()];
  const session = { tenantId: TENANT, projectId: record.projectId, sessionId: randomUUID(), offset: 1 };
  const late = { ...session, fromMicros: 1n, toMicros: 2n };
  const pending: Change = {
    entry: 'retraction',
    key: keyOf(retracted),
    value: { record: retracted, offset: 1 },
  };
  const state = aState([
    pending,
    { entry: 'late', key: 'one', value: late },
    { entry: 'late', key: 'two', value: late },
  ]);
  const sessions = new Map([
    ['one', late],
    ['two', { ...late }],
  ]);
  const asked = { kind: 'late' as const, sessions, below: 0, missing: new Map(), linkCounts: new Map() };
  const free = [aFound(record)];
  const done = answer(state, { ...asked, found: free, isComplete: true });
  expect(done.links).toMatchObject([{ kind: 'linked', reportId: record.reportId }]);
  // The entry of the other session was extended during the lookup.
  expect(done.changes).toEqual([{ entry: 'late', key: 'one', value: null }]);
  expect(answer(state, { ...asked, found: free, isComplete: false }).changes).toEqual([]);
  const held = answer(state, { ...asked, found: [...free, aFound(retracted)], isComplete: true });
  expect([held.links.length, held.changes]).toEqual([1, []]);
  // The budget also includes links that may have been made since the lookup.
  const small = aReport({ maxSessionLinks: 1 });
  const full = answer(state, { ...asked, found: [aFound(small), aFound(small)], isComplete: true });
  expect(full.links).toHaveLength(1);
});

/** Returns the state of a partition, which is the home partition by default. */
function aState(changes: readonly Change[] = [], { partition = HOME, openReports = 9 } = {}): LinkerState {
  const state = new LinkerState(partition, PARTITIONS, { ...LINKER_BOUNDS, openReports });
  state.evolve(changes);
  return state;
}

/** Returns a report whose events belong to lane 0 and lane 1. */
function aReport(of: Partial<ReportLink> = {}): ReportLink {
  const named = { inlineEventIds: [HERE], eventIds: [THERE] };
  return aReportLink({
    tenantId: TENANT,
    receivedAt: NOW_MS,
    sessionId: randomUUID(),
    sessionLane: 1,
    ...named,
    ...of,
  });
}

function bare(record: ReportLink): ReportLink {
  return { ...record, content: null, requestDigest: null };
}

function tracked(record: ReportLink, of: Partial<TrackedReport>) {
  const value: TrackedReport = {
    ...{ record, offset: OFFSET, phase: 'open', askAt: DUE_NOW, closesAt: closesAtMs(record) },
    ...of,
  };
  return { entry: 'report', key: keyOf(record), value } satisfies Change;
}

function aKnown(record: ReportLink, of: Partial<ProjectedReport> = {}): ProjectedReport {
  return { record, logId: LOG, offset: OFFSET, isRetracted: false, ...of };
}

function aFound(record: ReportLink): FoundEvent {
  return { key: keyOf(record), record, event: { ...anEvent(), receivedAt: 1 }, source: 'session' };
}

function taken(state: LinkerState, record: ReportLink) {
  return decideReportLink(state, OFFSET, record, NOW_MS);
}

function answer(state: LinkerState, of: Answer) {
  return decideAnswer({ state, nowMs: NOW_MS, logId: LOG }, of);
}

function never(): never {
  throw new Error('it is not tracked');
}
