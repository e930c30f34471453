import { randomBytes } from 'node:crypto';
import { laneOf, millisOf } from '@questlog/schemas/uuid';
import { describe, expect, test } from 'vitest';
import {
  type AcceptInput,
  type AssignedDraft,
  accept,
  assignLanes,
  randomBytesFor,
  sessionsOf,
} from './accept.ts';

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
    idempotency: null,
    shape: 'lane',
    partitions: 4,
    random: randomBytes(randomBytesFor(given.length)),
    ...of,
  };
}

const keyed = (of: Partial<AcceptInput> = {}) =>
  accept(input({ idempotency: { key: KEY, digest: Buffer.alloc(32, 7) }, ...of }));

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

test.each(['lane', 'session', 'event'] as const)(
  'a request without a key is one record, with the shape %s',
  (shape) => {
    expect(accept(input({ shape })).appends[0]?.messages).toHaveLength(1);
  },
);

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

describe('a keyed request', () => {
  test('has the ids and append ids of its first attempt, also at another time', () => {
    const first = keyed();
    const second = keyed({ receivedAt: NOW + 60_000 });
    expect(second.created.map(({ id }) => id)).toEqual(first.created.map(({ id }) => id));
    expect(second.appends[0]?.messages[0]?.appendId).toBe(first.appends[0]?.messages[0]?.appendId);
    expect(millisOf(first.created[0]?.id ?? '')).toBe(millisOf(KEY));
  });

  test('has other ids in another project, under another body, under another key', () => {
    const ids = [
      keyed(),
      keyed({ projectId: TENANT }),
      keyed({ idempotency: { key: KEY, digest: Buffer.alloc(32, 8) } }),
      keyed({ idempotency: { key: KEY.replace('3027', '3028'), digest: Buffer.alloc(32, 7) } }),
    ].flatMap(({ created, appends }) => [created[0]?.id, appends[0]?.messages[0]?.appendId]);
    expect(new Set(ids).size).toBe(8);
  });

  const appendIdsOf = ({ appends }: ReturnType<typeof keyed>) =>
    appends.flatMap(({ messages }) => messages.map(({ appendId }) => appendId));

  test('with sampled elements has an append id per event, so that a fuller retry adds only the new ones', () => {
    const [first, second, third] = drafts([0, 0, 0]);
    if (first === undefined || second === undefined || third === undefined) throw new Error('three drafts');
    const partial = appendIdsOf(keyed({ drafts: [first, third], shape: 'event' }));
    const whole = appendIdsOf(keyed({ drafts: [first, second, third], shape: 'event' }));
    expect(whole).toEqual([partial[0], expect.any(String), partial[1]]);
    const inLanes = appendIdsOf(keyed({ drafts: drafts([0, 1, 2]) }));
    expect(new Set([...whole, ...inLanes]).size).toBe(6);
  });

  test('that is lenient has an append id per session, so that a retry can add a session', () => {
    const draft = (sessionId: string | null, index: number) =>
      ({ ...drafts([0])[0], sessionId, index, eventType: `${index}` }) as AssignedDraft;
    const whole = [draft('one', 0), draft(null, 1), draft('other', 2), draft('one', 3)];
    const partial = whole.filter((_, at) => at !== 2);
    const { appends } = keyed({ drafts: whole, shape: 'session' });
    expect(appends[0]?.messages.map(({ events }) => events.map(({ eventType }) => eventType))).toEqual([
      ['0', '3'],
      ['1'],
      ['2'],
    ]);
    const [wholeIds, partialIds] = [whole, partial].map((some) =>
      appendIdsOf(keyed({ drafts: some, shape: 'session' })),
    );
    expect(wholeIds?.filter((_, at) => at !== 2)).toEqual(partialIds);
    expect(new Set(wholeIds).size).toBe(3);
  });
});

describe('the events of a bug report', () => {
  const given = drafts([0, 1, 0]);
  const first = accept(input({ drafts: given, reportId: KEY }));
  const idsOf = (of: typeof first) => of.created.map(({ id }) => id);
  const appendIdsOf = (of: typeof first) =>
    of.appends.flatMap(({ messages }) => messages.map(({ appendId }) => appendId));

  test('have the same append ids at every attempt', () => {
    const named = given.map((draft, i) => ({ ...draft, id: idsOf(first)[i] ?? '' }));
    const again = accept(input({ drafts: named, reportId: KEY }));
    expect(appendIdsOf(again)).toEqual(appendIdsOf(first));
    expect(new Set(appendIdsOf(first)).size).toBe(2);
    expect(first.appends.flatMap(({ messages }) => messages.map(({ idempotency }) => idempotency))).toEqual([
      null,
      null,
    ]);
  });

  test('have the ids of the report’s record when a report is completed', () => {
    const [, second = ''] = idsOf(first);
    const missing = given.filter(({ index }) => index === 1).map((draft) => ({ ...draft, id: second }));
    const rest = accept(input({ drafts: missing, reportId: KEY }));
    expect(idsOf(rest)).toEqual([second]);
    expect(appendIdsOf(first)).toContain(appendIdsOf(rest)[0]);
  });

  test('have other append ids if the report is filed again with other ids', () => {
    const anew = accept(input({ drafts: given, reportId: KEY }));
    expect(idsOf(anew)).not.toEqual(idsOf(first));
    expect(new Set([first, anew].flatMap(appendIdsOf)).size).toBe(4);
  });

  test('share no append id with another report, another project, or a request without a report', () => {
    const others = [
      accept(input({ drafts: given, reportId: PROJECT })),
      accept(input({ drafts: given, projectId: TENANT, reportId: KEY })),
      accept(input({ drafts: given })),
    ];
    expect(new Set([first, ...others].flatMap(appendIdsOf)).size).toBe(8);
  });
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
  const sessions = new Map([[known, { lane: 2, buildId: 'the session’s', player: 5 }]]);
  const placed = assignLanes({ drafts: all, problems: [earlier] }, sessions, { lane: 1, projectId: PROJECT });
  expect(placed.drafts).toEqual([
    { ...all[0], lane: 2, buildId: 'the session’s', player: 5 },
    { ...all[1], lane: 2, player: 5 },
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
  const sessions = new Map(ids.map((id) => [id, { lane: 0, buildId: id, player: 1 }]));
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

test('an event keeps its sample rate', () => {
  const [kept, whole] = drafts([0, 0]);
  if (kept === undefined || whole === undefined) throw new Error('two drafts');
  const { created } = accept(input({ drafts: [{ ...kept, sampleRate: 0.25 }, whole] }));
  expect(created.map(({ sampleRate }) => sampleRate)).toEqual([0.25, null]);
});

test('each record of a request has an id of its own bytes', () => {
  const given = drafts([0, 1, 2]);
  const { created, appends } = accept(
    input({ drafts: given, random: Buffer.from(Array.from({ length: 72 }, (_, i) => i)) }),
  );
  expect(randomBytesFor(3)).toBe(72);
  const ids = appends.flatMap(({ messages }) => messages.map(({ appendId }) => appendId.slice(0, 8)));
  expect(ids.sort()).toEqual(['18191a1b', '28292a2b', '38393a3b']);
  expect(new Set(created.map(({ id }) => id)).size).toBe(3);
});
