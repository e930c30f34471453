/** Tests the choice of the next lookup: the kinds alternate, a lookup has a limited size, and no link is made twice. */
import { randomUUID } from 'node:crypto';
import { anEvent, aReportLink } from '@questlog/schemas/fixtures/builders';
import { partitionOf } from '@questlog/schemas/partition';
import type { TrackedReport } from '@questlog/schemas/topics/linkerState';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { expect, test } from 'vitest';
import { type Change, keyOf } from './decision.ts';
import {
  heavyProjectsAfter,
  type Job,
  linkQueryOf,
  NO_HEAVY_PROJECTS,
  nextJob,
  type SuspendedJobs,
} from './jobs.ts';
import { LINKER_BOUNDS, LinkerState } from './linkerState.ts';
import { needsSessionLanes, requiredOffsetsOf } from './requiredOffsets.ts';

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const NOTHING_ASIDE: SuspendedJobs = new Map();
const POSITION = { events: 11, eventsEpoch: 3, links: 12, reportLinksEpoch: 4 };
const ENDS = { events: [20, 21], reports: [30, 31], sessions: [40, 41] };

test('alternates the kinds, starting after the last one', () => {
  const state = aState([...oneOfEach()]);
  const order = (after: Job['kind'] | undefined) =>
    nextJob(state, NOW_MS, { after, max: 9, suspended: NOTHING_ASIDE })?.kind;
  const turns = ['unlink', 'check', 'ask', 'close', 'late'] as const;
  expect([undefined, ...turns].map(order)).toEqual(['unlink', 'check', 'ask', 'close', 'late', 'unlink']);
});

test('returns a suspended lookup in its turn; only checks and unlinks overtake a suspended ask', () => {
  const state = aState([...oneOfEach()]);
  const kinds = ['unlink', 'check', 'ask', 'close', 'late'] as const;
  const passing = (suspended: SuspendedJobs) =>
    kinds.map((_, i) => nextJob(state, NOW_MS, { after: kinds.at(i - 1), max: 9, suspended }));
  for (const held of ['ask', 'close'] as const) {
    const job: Job = { kind: held, reports: new Map() };
    const jobs = passing(new Map([[held, { job }]]));
    expect(jobs.map((one) => one?.kind)).toEqual([
      'unlink',
      'check',
      held,
      held === 'ask' ? 'unlink' : held,
      'unlink',
    ]);
    expect(jobs[2]).toBe(job);
  }
  const job: Job = { kind: 'late', sessions: new Map() };
  expect(passing(new Map([['late', { job }]])).map((one) => one?.kind)).toEqual([...kinds]);
});

test('looks up only due reports, the earliest first, in portions', () => {
  const [late, later, soon] = [1, 2, 3].map((n) => aTracked({ askAt: NOW_MS - 3 + n }));
  const state = aState([later, soon, late].flatMap((one) => (one === undefined ? [] : [one.change])));
  const asked = (nowMs: number, max: number) => {
    const job = nextJob(state, nowMs, { after: undefined, max, suspended: NOTHING_ASIDE });
    return job?.kind === 'ask' ? [...job.reports.keys()] : [];
  };
  expect(asked(NOW_MS - 3, 9)).toEqual([]);
  expect(asked(NOW_MS - 2, 9)).toEqual([late?.key]);
  expect(asked(NOW_MS, 9)).toEqual([late?.key, later?.key, soon?.key]);
  expect(asked(NOW_MS, 2)).toEqual([late?.key, later?.key]);
  state.evolve([{ entry: 'report', key: late?.key ?? '', value: null }]);
  expect(asked(NOW_MS, 2)).toEqual([later?.key, soon?.key]);
});

test.each([
  [10_000, 10_000, 2],
  [10_000, 10_001, 1],
  [30_000, 1, 1],
])('reports that name %i and %i events: %i in one lookup', (first, second, count) => {
  const named = [first, second].map((eventIds, i) => {
    const ids = Array.from({ length: eventIds }, (_, n) => `event ${n}`);
    const half = Math.floor(eventIds / 2);
    const record = { inlineEventIds: ids.slice(half), eventIds: ids.slice(0, half) };
    return aTracked({ phase: 'waiting', closesAt: NOW_MS + i }, record).change;
  });
  const state = new LinkerState(0, 1, LINKER_BOUNDS);
  state.evolve(named);
  const job = nextJob(state, NOW_MS, { after: undefined, max: 9, suspended: NOTHING_ASIDE });
  expect(job?.kind === 'check' && job.reports.size).toBe(count);
});

test('looks up retractions and sessions in portions', () => {
  const state = aState([...oneOfEach(), ...oneOfEach(), ...oneOfEach()]);
  const portion = (after: Job['kind']) => nextJob(state, NOW_MS, { after, max: 2, suspended: NOTHING_ASIDE });
  const [unlink, late] = [portion('late'), portion('close')];
  expect(unlink?.kind === 'unlink' && unlink.retractions.size).toBe(2);
  expect(late?.kind === 'late' && late.sessions.size).toBe(2);
});

test('a lookup requires only the offsets of the partitions that it reads', () => {
  let record = aReportLink();
  while (partitionOf(record.tenantId, 0, 2) !== 0) record = aReportLink({ tenantId: randomUUID() });
  const tracked = (offset: number): TrackedReport => ({
    record,
    offset,
    phase: 'open',
    askAt: 0,
    closesAt: 0,
  });
  const reports = new Map([
    ['a', tracked(7)],
    ['b', tracked(3)],
  ]);
  const needs = (job: Job, partition = 1) =>
    requiredOffsetsOf(job, { partition, partitions: 2 }, POSITION, ENDS);
  const at = (partition: number, offset: number, leaderEpoch: number | null = null) =>
    new Map([[partition, { offset, leaderEpoch }]]);
  const linked = { events: at(1, 11, 3), links: at(1, 12) };
  expect(needs({ kind: 'check', reports })).toEqual({ reports: at(1, 8, 4), sessions: at(1, 41) });
  expect(needs({ kind: 'check', reports: new Map() }, 5)).toEqual({
    reports: at(5, 0, 4),
    sessions: at(5, 0),
  });
  // The home partition of the tenant is 0. The rows of copied and spilled reports are projected from the home partition.
  const unlink = { kind: 'unlink', retractions: reports } as const;
  expect(needs(unlink)).toEqual({ ...linked, reports: new Map([...at(1, 8, 4), ...at(0, 30)]) });
  expect(needs(unlink, 0).reports).toEqual(at(0, 8, 4));
  const spilled = new Map([...reports, ['c', { ...tracked(5), phase: 'spilled' }]] as const);
  for (const kind of ['ask', 'close'] as const) {
    expect(needs({ kind, reports })).toEqual(linked);
    expect(needs({ kind, reports: spilled })).toEqual({ ...linked, reports: at(0, 30) });
  }
  const sessions = new Map(
    oneOfEach().flatMap((one) => (one.entry === 'late' && one.value ? [[one.key, one.value]] : [])),
  );
  const late = needs({ kind: 'late', sessions });
  expect({ ...late, reports: [...(late.reports ?? [])].map(([home, { offset }]) => offset - home) }).toEqual({
    ...linked,
    reports: [30],
  });
});

test.each<[boolean, 'check' | 'ask', string | null, number | null]>([
  [true, 'check', 'a session', null],
  [false, 'check', 'a session', 0],
  [false, 'check', null, null],
  [false, 'ask', 'a session', null],
])('needs session lanes (%s): a %s of %s in lane %s', (asks, kind, sessionId, sessionLane) => {
  const { key, value } = aTracked({}, { sessionId, sessionLane });
  const known = aTracked({}, { sessionId: randomUUID(), sessionLane: 0 });
  const reports = new Map([
    [known.key, known.value],
    [key, value],
  ]);
  expect(needsSessionLanes({ kind, reports })).toBe(asks);
});

test('a project with more data than one answer is looked up alone; other projects get every second lookup', () => {
  const [heavy, other] = [randomUUID(), randomUUID()];
  const of = (projectId: string) => aTracked({ askAt: 0 }, { projectId });
  const state = aState(
    [of(other), ...Array.from({ length: 900 }, () => of(heavy))].map(({ change }) => change),
  );
  let turns = NO_HEAVY_PROJECTS;
  /** Returns the number of reports of each project in the next lookup. */
  const turn = (isComplete: boolean): [number, number] => {
    const job = nextJob(state, NOW_MS, {
      after: undefined,
      max: 1_000,
      suspended: NOTHING_ASIDE,
      heavy: turns,
    });
    if (job?.kind !== 'ask') throw new Error(`${job?.kind}`);
    const ofHeavy = [...job.reports].filter(([, { record }]) => record.projectId === heavy);
    const event = { ...anEvent(), receivedAt: 1 };
    const found = ofHeavy.map(([key, { record }]) => ({ key, record, event, source: 'session' as const }));
    const isDone = isComplete || found.length === 0;
    turns = heavyProjectsAfter(turns, {
      ...job,
      found,
      below: 0,
      missing: new Map(),
      linkCounts: new Map(),
      isComplete: isDone,
    });
    return [ofHeavy.length, job.reports.size - ofHeavy.length];
  };
  expect([turn(false), turn(false), turn(false), turn(false), turn(false)]).toEqual([
    ...[
      [900, 1],
      [500, 0],
      [0, 1],
      [250, 0],
      [0, 1],
    ],
  ]);
  // The answers of this project are complete again, so the project is soon looked up together with other projects.
  expect([turn(true), turn(true), turn(true), turn(true), turn(true), turn(true)]).toEqual([
    ...[
      [125, 0],
      [0, 1],
      [250, 0],
      [0, 1],
      [500, 0],
      [900, 1],
    ],
  ]);
});

test('a heavy project that is alone does not wait, and its checks never wait; an unlink lookup can also make a project heavy', () => {
  const [projectId, other] = [randomUUID(), randomUUID()];
  const heavy = { projects: new Map([[projectId, 1]]), isNext: false };
  const sizeOfNext = (...reports: readonly { change: Change }[]) => {
    const state = aState(reports.map(({ change }) => change));
    const job = nextJob(state, NOW_MS, { after: undefined, max: 9, suspended: NOTHING_ASIDE, heavy });
    return job !== undefined && 'reports' in job && job.reports.size;
  };
  const asked = () => aTracked({ askAt: 0 }, { projectId });
  expect(sizeOfNext(asked(), asked())).toBe(1);
  const waiting = (of: string) => aTracked({ phase: 'waiting' }, { projectId: of });
  expect(sizeOfNext(waiting(projectId), waiting(other), waiting(projectId))).toBe(3);

  const record = aReportLink({ projectId });
  const retractions = new Map([[keyOf(record), { record, offset: 0 }]]);
  const answer = { kind: 'unlink', retractions, projected: new Map(), found: [], isComplete: false } as const;
  expect(heavyProjectsAfter(NO_HEAVY_PROJECTS, answer)).toEqual({
    projects: new Map([[projectId, 500]]),
    isNext: true,
  });
});

test('a lookup takes reports of the projects in turn, so that no project fills it', () => {
  const [many, one] = [randomUUID(), randomUUID()];
  const of = (projectId: string) => aTracked({ askAt: 0 }, { projectId });
  const state = aState([of(many), of(many), of(many), of(one)].map(({ change }) => change));
  const job = nextJob(state, NOW_MS, { after: undefined, max: 2, suspended: NOTHING_ASIDE });
  const projects = job?.kind === 'ask' ? [...job.reports.values()].map(({ record }) => record.projectId) : [];
  expect(projects).toEqual([many, one]);
});

test('a report queries its named events and the events of its session, each once', () => {
  const state = new LinkerState(0, 1, LINKER_BOUNDS);
  const [inline, named] = [randomUUID(), randomUUID()];
  const record = aReportLink({
    sessionId: randomUUID(),
    sessionLane: 0,
    inlineEventIds: [inline],
    eventIds: [named, inline],
  });
  const ask = linkQueryOf(state, 'key', record);
  expect([...ask.events]).toEqual([
    [inline, 'inline'],
    [named, 'named'],
  ]);
  expect(ask.session).toMatchObject({ id: record.sessionId, excludedEventIds: [inline, named] });
  expect(linkQueryOf(state, 'key', { ...record, sessionId: null }).session).toBeNull();
});

function aTracked(of: Partial<TrackedReport> = {}, record: Partial<ReportLink> = {}) {
  const whole = aReportLink(record);
  const key = keyOf(whole);
  const value: TrackedReport = {
    record: whole,
    offset: 0,
    phase: 'open',
    askAt: null,
    closesAt: NOW_MS * 2,
    ...of,
  };
  return { key, value, change: { entry: 'report', key, value } satisfies Change };
}

/** Returns changes that make one lookup of each kind due. */
function oneOfEach(): Change[] {
  const record = aReportLink();
  const [projectId, sessionId] = [randomUUID(), randomUUID()];
  const session = { tenantId: randomUUID(), projectId, sessionId, fromMicros: 0n, toMicros: 0n, offset: 0 };
  return [
    aTracked({ phase: 'waiting' }).change,
    aTracked({ askAt: 0 }).change,
    aTracked({ closesAt: 0 }).change,
    { entry: 'retraction', key: keyOf(record), value: { record, offset: 0 } },
    { entry: 'late', key: `${projectId}/${sessionId}`, value: session },
  ];
}

function aState(changes: readonly Change[]): LinkerState {
  const state = new LinkerState(0, 1, LINKER_BOUNDS);
  state.evolve(changes);
  return state;
}
