import { randomBytes } from 'node:crypto';
import { laneOf, millisOf } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { type AcceptInput, type AssignedDraft, accept, assignLanes, sessionsOf } from './accept.ts';

const TENANT = '7846b5f4-39dd-4381-b200-dbc9f59749ad';
const PROJECT = '85ac27b3-4cf8-4a46-b24b-0b6ca34e27fa';
const KEY = '01a1fe02-7454-7000-a110-3027adf24232';
const NOW = 1_795_262_987_142;

function drafts(lanes: readonly number[]): AssignedDraft[] {
  return lanes.map((lane, index) => ({
    index,
    lane,
    sessionId: null,
    buildId: null,
    eventType: `type ${index}`,
    occurredAt: null,
    payload: Buffer.from('{}'),
    sequence: null,
  }));
}

function input(of: Partial<AcceptInput> = {}): AcceptInput {
  const given = of.drafts ?? drafts([0, 0, 0]);
  return {
    tenantId: TENANT,
    projectId: PROJECT,
    revision: 'A',
    receivedAt: NOW,
    drafts: given,
    remaining: Number.POSITIVE_INFINITY,
    reportId: KEY,
    partitions: 4,
    random: randomBytes(given.length * 8),
    ...of,
  };
}

test('one request of one lane is one record, in request order', () => {
  const { created, appends } = accept(input());
  expect(appends).toHaveLength(1);
  expect(appends[0]?.messages).toHaveLength(1);
  expect(appends[0]?.messages[0]?.events.map(({ eventType }) => eventType)).toEqual([
    'type 0',
    'type 1',
    'type 2',
  ]);
  expect(new Set(created.map(({ id }) => id)).size).toBe(3);
});

test('an omitted occurredAt is the time of receipt', () => {
  expect(accept(input()).created[0]?.occurredAt).toBe(BigInt(NOW) * 1000n);
});

test('flags the events above the quota only', () => {
  const { created } = accept(input({ drafts: drafts([0, 0, 0, 0, 0]), remaining: 2 }));
  expect(created.map(({ overQuota }) => overQuota)).toEqual([false, false, true, true, true]);
});

test('an id holds the time of receipt and the lane, and the lane chooses the partition', () => {
  const { created, appends } = accept(input({ drafts: drafts([0, 1, 1]) }));
  expect(created.map(({ id }) => [millisOf(id), laneOf(id)])).toEqual([
    [NOW, 0],
    [NOW, 1],
    [NOW, 1],
  ]);
  expect(appends.map(({ messages }) => messages.map(({ events }) => events.length))).toEqual([[1], [2]]);
  const [first, second] = appends;
  expect(second?.partition).toBe(((first?.partition ?? 0) + 1) % 4);
});

test('lanes that fall on one partition are appended together', () => {
  const { appends } = accept(input({ drafts: drafts([0, 4, 1]) }));
  expect(appends.map(({ messages }) => messages.length).toSorted()).toEqual([1, 2]);
});

const given = drafts([0, 1, 0]);
const first = accept(input({ drafts: given }));
const idsOf = (of: typeof first) => of.created.map(({ id }) => id);
const appendIdsOf = (of: typeof first) =>
  of.appends.flatMap(({ messages }) => messages.map(({ appendId }) => appendId));

test('the events of a report have the same append ids at every attempt', () => {
  const named = given.map((draft, i) => ({ ...draft, id: idsOf(first)[i] ?? '' }));
  const again = accept(input({ drafts: named }));
  expect(appendIdsOf(again)).toEqual(appendIdsOf(first));
  expect(new Set(appendIdsOf(first)).size).toBe(2);
  expect(first.appends.flatMap(({ messages }) => messages.map(({ idempotency }) => idempotency))).toEqual([
    null,
    null,
  ]);
});

test('the events of a report have the ids of the report’s record when the report is completed', () => {
  const [, second = ''] = idsOf(first);
  const missing = given.filter(({ index }) => index === 1).map((draft) => ({ ...draft, id: second }));
  const rest = accept(input({ drafts: missing }));
  expect(idsOf(rest)).toEqual([second]);
  expect(appendIdsOf(first)).toContain(appendIdsOf(rest)[0]);
});

test('the events of a report have other append ids if the report is filed again with other ids', () => {
  const anew = accept(input({ drafts: given }));
  expect(idsOf(anew)).not.toEqual(idsOf(first));
  expect(new Set([first, anew].flatMap(appendIdsOf)).size).toBe(4);
});

test('the events of a report share no append id with another report or another project', () => {
  const named = given.map((draft, i) => ({ ...draft, id: idsOf(first)[i] ?? '' }));
  const others = [{ reportId: PROJECT }, { projectId: TENANT }].map((of) =>
    accept(input({ drafts: named, ...of })),
  );
  expect(new Set([first, ...others].flatMap(appendIdsOf)).size).toBe(6);
});

test('assigns an event its session’s lane and build, and reports unknown sessions in order', () => {
  const [known, unknown] = ['a known session', 'an unknown one'];
  const all = drafts([0, 0, 0, 0, 0]).map(({ lane: _, ...draft }, i) => ({
    ...draft,
    sessionId: [known, known, unknown, null, unknown][i] ?? null,
    buildId: i === 1 ? 'its own' : null,
  }));
  const earlier = {
    index: 3,
    pointer: '/eventType',
    code: 'field_required',
    detail: 'eventType is required',
  } as const;
  const sessions = new Map([[known, { lane: 2, buildId: 'the session’s' }]]);
  const placed = assignLanes({ drafts: all, problems: [earlier] }, sessions, { lane: 1, projectId: PROJECT });
  expect(placed.drafts).toEqual([
    { ...all[0], lane: 2, buildId: 'the session’s' },
    { ...all[1], lane: 2 },
    { ...all[3], lane: 1 },
  ]);
  expect(placed.problems.map(({ index, pointer, code }) => [index, pointer, code])).toEqual([
    [2, '/sessionId', 'unknown_session'],
    [3, '/eventType', 'field_required'],
    [4, '/sessionId', 'unknown_session'],
  ]);
  expect(sessionsOf(all)).toEqual([known, unknown]);
});

test('a token for some builds cannot write events or sessions of other builds', () => {
  const ids = ['own', 'other'];
  const sessions = new Map(ids.map((id) => [id, { lane: 0, buildId: id }]));
  const all = drafts([0, 0, 0, 0]).map((draft, i) => ({
    ...draft,
    sessionId: ['own', 'other', null, null][i] ?? null,
    buildId: [null, null, 'own', 'other'][i] ?? null,
  }));
  const placedFor = (buildIds: readonly string[] | undefined) => {
    const of = { lane: 0, projectId: PROJECT, buildIds };
    const placed = assignLanes({ drafts: all, problems: [] }, sessions, of);
    const told = placed.problems.map(({ index, pointer, code }) => [index, pointer, code]);
    return [placed.drafts.map(({ index }) => index), told];
  };
  expect(placedFor(undefined)).toEqual([[0, 1, 2, 3], []]);
  expect(placedFor(['own'])).toEqual([
    [0, 2],
    [
      [1, '/sessionId', 'build_not_allowed'],
      [3, '/buildId', 'build_not_allowed'],
    ],
  ]);
});
