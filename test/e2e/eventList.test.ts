/** Tests GET /v1/events. It returns the events of a project in pages, newest first, and supports filters. */
import { beforeAll, describe, expect, test } from 'vitest';
import { aKey, anEvent, anUnknownId, aToken, events, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();

interface Listed {
  readonly id: string;
  readonly payload: { readonly n: number };
}

describe.concurrent('the list of events', () => {
  test('contains the events exactly as they were answered, newest first', async () => {
    const game = await shared.aProject({ revision: 'A' });
    const { sessionId } = game;
    const [first] = (await game.post(anEvent({ sessionId, occurredAt: '2026-02-01' }))).json();
    // Uses a key that is an hour old. The id of the event is then an hour old, and the list has the event at that time.
    const headers = { 'Idempotency-Key': aKey(Date.now() - 3_600_000) };
    const [late] = (await game.post(anEvent({ sessionId }), headers)).json();
    const [last] = (await game.post(anEvent({ sessionId, occurredAt: '2026-01-01' }))).json();

    expect((await game.get('/v1/events')).json()).toEqual({ events: [last, first, late], next: null });
  });

  test('names the reports that each event is linked to', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const [named] = (await game.post(anEvent())).json();
    await game.post(anEvent());
    const { id } = (await game.report({ eventIds: [named.id] })).json();
    const reportsOf = async (): Promise<Record<string, string[]>> =>
      Object.fromEntries(
        (await game.get('/v1/events'))
          .json()
          .events.map((one: Listed & { reportIds: string[] }) => [
            one.id === named.id ? 'named' : 'other',
            one.reportIds,
          ]),
      );

    expect(await reportsOf()).toEqual({ named: [id], other: [] });
    await game.request('DELETE', `/v1/reports/${id}`);
    expect(await reportsOf()).toEqual({ named: [], other: [] });
  });

  test('contains only the events of its project', async () => {
    const game = await shared.aProject({ revision: 'B' });
    const theirs = await shared.aProject({ revision: 'B', tenantId: game.tenantId });
    await theirs.post(anEvent({ sessionId: theirs.sessionId }));

    expect((await game.get('/v1/events')).json()).toEqual({ events: [], next: null });
    const query = `?sessionId=${theirs.sessionId}`;
    expect((await game.get(`/v1/events${query}`)).json()).toEqual({ events: [], next: null });
    expect((await theirs.get(`/v1/events${query}`)).json().events).toHaveLength(1);
  });

  test('requires the scope read', async () => {
    const game = await shared.aProject();
    const { token } = await aToken(shared.product, game.projectId, { scopes: ['events:write'] });
    const headers = { Authorization: `Bearer ${token}` };

    expect((await game.request('GET', '/v1/events', { headers })).status).toBe(403);
  });
});

describe.concurrent('pages of events', () => {
  let game: TestProject;

  beforeAll(async () => {
    game = await shared.aProject({ revision: 'B', spread: 4 });
    // Sends 30 events in one request. They have the same time, so a page ends between such events. Events without a session can be
    // in any lane.
    await game.post(events(30));
    for (let n = 30; n < 40; n++) await game.post(anEvent({ payload: { n } }));
  });

  test('contain every event once and in one order, for every page size', async () => {
    const whole: Listed[] = (await game.get('/v1/events')).json().events;
    expect(whole.map(({ payload }) => payload.n).toSorted((a, b) => a - b)).toEqual([...Array(40).keys()]);
    const times = whole.map(({ id }) => id.slice(0, 13));
    expect(times).toEqual(times.toSorted().toReversed());

    for (const limit of [1, 7, 39, 40]) expect(await pagesOf(game, limit)).toEqual(whole);
  });
});

describe.concurrent('a filter of events', () => {
  let game: TestProject;
  let sessionId: string;

  beforeAll(async () => {
    game = await shared.aProject({ revision: 'B' });
    sessionId = await game.session();
    await game.post([
      anEvent({ eventType: 'a', occurredAt: '2026-01-01T00:00:00.000001Z', payload: { n: 0 } }),
      anEvent({ eventType: '', occurredAt: '2026-01-02', sessionId, payload: { n: 1 } }),
      anEvent({ eventType: "A'\t\0\\\n{x:String}", occurredAt: '2026-01-03', payload: { n: 2 } }),
      anEvent({ eventType: 'a', occurredAt: '1950-01-01', sessionId, payload: { n: 3 } }),
    ]);
  });

  const cases: readonly (readonly [string, () => Record<string, string>, number[]])[] = [
    ['sessionId', () => ({ sessionId: sessionId.toUpperCase() }), [1, 3]],
    ['unknown sessionId', () => ({ sessionId: anUnknownId() }), []],
    ['eventType', () => ({ eventType: 'a' }), [0, 3]],
    ['empty eventType', () => ({ eventType: '' }), [1]],
    ['eventType with SQL special characters', () => ({ eventType: "A'\t\0\\\n{x:String}" }), [2]],
    ['since, inclusive', () => ({ since: '2026-01-01T00:00:00.000001Z' }), [0, 1, 2]],
    ['since, to the microsecond', () => ({ since: '2026-01-01T00:00:00.000002Z' }), [1, 2]],
    ['until, exclusive', () => ({ until: '2026-01-01T00:00:00.000001Z' }), [3]],
    ['since and until', () => ({ since: '2026-01-01', until: '2026-01-03' }), [0, 1]],
    ['since with an offset', () => ({ since: '2026-01-02T01:00:00+01:00' }), [1, 2]],
    [
      'all filters together',
      () => ({ sessionId, eventType: 'a', since: '1950-01-01', until: '2000-01-01' }),
      [3],
    ],
    ['an unknown parameter, which is ignored', () => ({ colour: 'red' }), [0, 1, 2, 3]],
  ];
  test.each(cases)('by %s', async (_, query, wanted) => {
    const { events: found } = (await game.get(`/v1/events?${new URLSearchParams(query())}`)).json();

    expect(found.map(({ payload }: Listed) => payload.n).toSorted()).toEqual(wanted);
  });

  test.each([
    ['sessionId=x', 'sessionId: a UUID'],
    ['since=', 'since: an ISO 8601 timestamp in the years 1900 to 2299'],
    ['until=2300-01-01', 'until: an ISO 8601 timestamp in the years 1900 to 2299'],
    ['limit=0', 'limit: a whole number from 1 to 1000'],
    ['cursor=x', 'cursor: must be the value of next from an earlier page'],
    [
      `cursor=${Buffer.from('1.0.0.0').toString('base64url')}`,
      'cursor: must be the value of next from an earlier page',
    ],
  ])('%s is a 400 that names the valid values', async (query, detail) => {
    const answer = await game.get(`/v1/events?${query}`);

    expect(answer.status).toBe(400);
    expect(answer.json()).toMatchObject({
      code: 'invalid_request',
      detail: expect.stringContaining(detail),
    });
  });
});

async function pagesOf(project: TestProject, limit: number): Promise<Listed[]> {
  const found: Listed[] = [];
  for (let cursor = ''; ; ) {
    const page = (await project.get(`/v1/events?limit=${limit}${cursor}`)).json();
    found.push(...page.events);
    if (page.next === null) return found;
    expect(page.events).toHaveLength(limit);
    cursor = `&cursor=${page.next}`;
  }
}
