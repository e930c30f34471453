/** Tests GET /v1/reports. It returns the bug reports of a project in pages, newest first, and supports filters. */
import { beforeAll, describe, expect, test } from 'vitest';
import { anUnknownId, aToken, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'B' });
});

interface Listed {
  readonly id: string;
  readonly receivedAt: string;
  readonly state: string;
}

describe.concurrent('the list of reports', () => {
  test('has an entry immediately after the report was filed, without long texts', async () => {
    const own = await shared.aProject({ revision: 'B' });
    const buildId = anUnknownId();
    const filed = await own.report({
      ...{ sessionId: own.sessionId, buildId, occurredAt: '2026-11-21T18:30:00.000001Z' },
      ...{ window: { beforeMs: 1_000 }, context: { any: 1 } },
      report: { title: 'ünï', description: 'long', severity: 'high', fingerprint: 'stuck' },
    });
    const { events: _, links, linksTruncated, truncated, ...common } = filed.json();

    expect((await own.get('/v1/reports')).json()).toEqual({
      reports: [
        {
          ...common,
          report: {
            ...{ title: 'ünï', severity: 'high', fingerprint: 'stuck' },
            ...{ reporterType: null, sourceChannel: null },
          },
        },
      ],
      next: null,
    });
  });

  test('has reports without content', async () => {
    const own = await shared.aProject({ revision: 'B' });
    const { id } = (await own.report({ sessionId: own.sessionId })).json();

    expect((await own.get('/v1/reports')).json().reports).toMatchObject([{ id, report: null }]);
  });

  test('keeps a retracted report with its state', async () => {
    const own = await shared.aProject({ revision: 'B' });
    const ids = await filedOneByOne(own, 3);
    await own.request('DELETE', `/v1/reports/${ids[1]}`);

    const { reports } = (await own.get('/v1/reports')).json();
    expect(reports.map(({ id, state, status }: Listed & { status: string }) => [id, state, status])).toEqual([
      [ids[2], 'filed', 'filed'],
      [ids[1], 'retracted', 'retracted'],
      [ids[0], 'filed', 'filed'],
    ]);
  });

  test('has only reports of its project', async () => {
    const theirs = await shared.aProject({ revision: 'B', tenantId: game.tenantId });
    const { id } = (await theirs.report({ sessionId: theirs.sessionId, report: { title: 't' } })).json();

    expect(idsOf(await theirs.get('/v1/reports'))).toEqual([id]);
    expect(idsOf(await game.get('/v1/reports?limit=1000'))).not.toContain(id);
    expect(idsOf(await game.get(`/v1/reports?sessionId=${theirs.sessionId}`))).toEqual([]);
  });

  test('needs the scope read', async () => {
    const { token } = await aToken(shared.product, game.projectId, { scopes: ['reports:write'] });
    const headers = { Authorization: `Bearer ${token}` };

    expect((await game.request('GET', '/v1/reports', { headers })).status).toBe(403);
  });
});

describe.concurrent('pages of reports', () => {
  test('have every report once, newest first, for every page size', async () => {
    const own = await shared.aProject({ revision: 'B' });
    // Files five reports one after another and twenty reports concurrently. Some of the concurrent reports then have the same
    // time.
    const ids = await filedOneByOne(own, 5);
    await Promise.all(Array.from({ length: 20 }, () => own.report({ report: { title: 't' } })));

    const whole: Listed[] = (await own.get('/v1/reports')).json().reports;
    expect(whole).toHaveLength(25);
    expect(new Set(whole.map(({ id }) => id)).size).toBe(25);
    const times = whole.map(({ receivedAt }) => receivedAt);
    expect(times).toEqual(times.toSorted().toReversed());
    expect(whole.slice(-5).map(({ id }) => id)).toEqual(ids.toReversed());

    for (const limit of [1, 7, 24, 25]) expect(await pagesOf(own, limit)).toEqual(whole);
  });

  test('keep their filters with a cursor, and continue while new reports arrive', async () => {
    const own = await shared.aProject({ revision: 'B' });
    const ids = await filedOneByOne(own, 5);
    const first = (await own.get('/v1/reports?limit=3')).json();
    await own.report({ report: { title: 'new' } });
    const second = (await own.get(`/v1/reports?limit=3&cursor=${first.next}`)).json();

    expect([...first.reports, ...second.reports].map(({ id }: Listed) => id)).toEqual(ids.toReversed());
    expect(second.next).toBeNull();
    const none = await own.get(`/v1/reports?cursor=${first.next}&severity=low`);
    expect(none.json()).toEqual({ reports: [], next: null });
  });
});

describe.concurrent('a filter of reports', () => {
  let own: TestProject;
  let session: string;
  let build: string;
  /** Names of the reports by id. */
  const names = new Map<string, string>();
  let between: string;

  beforeAll(async () => {
    own = await shared.aProject({ revision: 'B' });
    [session, build] = [await own.session(), anUnknownId()];
    const file = async (name: string, of: Record<string, unknown>): Promise<Listed> => {
      const { sessionId, buildId, ...texts } = of;
      const answer = await own.report({ sessionId, buildId, report: { title: name, ...texts } });
      names.set(answer.json().id, name);
      return answer.json();
    };
    const first = await file('a', { severity: 'low', fingerprint: "it's\t\\n", sessionId: session });
    await untilLater(first.receivedAt);
    between = (await file('b', { severity: 'critical', buildId: build })).receivedAt;
    await untilLater(between);
    await file('c', { severity: 'critical', fingerprint: 'F', sessionId: session, buildId: build });
  });

  const cases: readonly (readonly [string, () => Record<string, string>, string])[] = [
    ['severity', () => ({ severity: 'critical' }), 'cb'],
    ['severity that none has', () => ({ severity: 'high' }), ''],
    ['buildId', () => ({ buildId: build.toUpperCase() }), 'cb'],
    ['sessionId', () => ({ sessionId: session }), 'ca'],
    ['sessionId that nobody knows', () => ({ sessionId: anUnknownId() }), ''],
    ['fingerprint', () => ({ fingerprint: "it's\t\\n" }), 'a'],
    ['fingerprint, to the letter', () => ({ fingerprint: 'f' }), ''],
    ['since, inside', () => ({ since: between }), 'cb'],
    ['until, outside', () => ({ until: between }), 'a'],
    ['since and until', () => ({ since: between, until: '2299-12-31' }), 'cb'],
    ['since with an offset', () => ({ since: '2000-01-01T00:00:00+02:00' }), 'cba'],
    [
      'all at once',
      () => ({ severity: 'critical', buildId: build, sessionId: session, since: between }),
      'c',
    ],
    ['an unknown name', () => ({ colour: 'red' }), 'cba'],
  ];
  test.each(cases)('%s', async (_, query, wanted) => {
    const found = idsOf(await own.get(`/v1/reports?${new URLSearchParams(query())}`));

    expect(found.map((id) => names.get(id)).join('')).toBe(wanted);
  });

  test.each([
    ['severity=urgent', 'severity: one of low, medium, high, critical'],
    ['severity=', 'severity: one of low, medium, high, critical'],
    ['buildId=7', 'buildId: a UUID'],
    ['sessionId=', 'sessionId: a UUID'],
    ['since=yesterday', 'since: an ISO 8601 timestamp in the years 1900 to 2299'],
    ['until=1899-12-31', 'until: an ISO 8601 timestamp in the years 1900 to 2299'],
    ['since=2026-01-01T00:00:00+02:00', 'a plus sign as %2B'],
    ['fingerprint=', 'fingerprint: 1 to 255 characters'],
    [`fingerprint=${'x'.repeat(256)}`, 'fingerprint: 1 to 255 characters'],
    ['limit=1001', 'limit: a whole number from 1 to 1000'],
    ['cursor=x', 'cursor: must be the value of next from an earlier page'],
  ])('%s is a 400 that says what it may be', async (query, detail) => {
    const answer = await own.get(`/v1/reports?${query}`);

    expect(answer.status).toBe(400);
    expect(answer.json()).toMatchObject({
      code: 'invalid_request',
      detail: expect.stringContaining(detail),
    });
  });
});

/** Files reports one after another, so that all reports have different times. */
async function filedOneByOne(project: TestProject, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) {
    const { id, receivedAt } = (await project.report({ report: { title: `${n}` } })).json();
    ids.push(id);
    await untilLater(receivedAt);
  }
  return ids;
}

/** Waits until the clock has passed a time. The server uses the clock of this machine too. */
async function untilLater(time: string): Promise<void> {
  await expect.poll(() => Date.now(), { interval: 1 }).toBeGreaterThan(Date.parse(time));
}

async function pagesOf(project: TestProject, limit: number): Promise<Listed[]> {
  const found: Listed[] = [];
  for (let cursor = ''; ; ) {
    const { reports, next } = (await project.get(`/v1/reports?limit=${limit}${cursor}`)).json();
    found.push(...reports);
    if (next === null) return found;
    expect(reports).toHaveLength(limit);
    cursor = `&cursor=${next}`;
  }
}

function idsOf(answer: { json(): { reports: Listed[] } }): string[] {
  return answer.json().reports.map(({ id }) => id);
}
