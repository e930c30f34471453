/** Tests GET /v1/sessions/{id}/events. It returns pages by time. Events with the same time are in the order of the log. */
import { beforeAll, describe, expect, test } from 'vitest';
import { anEvent, events, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

interface Listed {
  readonly occurredAt: string;
  readonly payload: { readonly n: number };
}

describe.concurrent('the events of a session', () => {
  test('are ordered by occurredAt, then by the order of acceptance', async () => {
    const sessionId = await game.session();
    const times = ['2026-01-03', '2026-01-01', '2026-01-02', '2026-01-01', '1950-06-01', '2026-01-02'];
    await game.post(times.map((occurredAt, n) => anEvent({ sessionId, occurredAt, payload: { n } })));
    for (let n = 6; n < 10; n++)
      await game.post(anEvent({ sessionId, occurredAt: '2026-01-02', payload: { n } }));

    expect((await listed(sessionId)).map(({ payload }) => payload.n)).toEqual([4, 1, 3, 2, 5, 6, 7, 8, 9, 0]);
  });

  test('are ordered to the microsecond, also before 1970', async () => {
    const sessionId = await game.session();
    const times = [
      '1969-12-31T23:59:59.999999Z',
      '1970-01-01T00:00:00.000001Z',
      '1969-12-31T23:59:59.999998Z',
      '1970-01-01',
    ];
    await game.post(times.map((occurredAt, n) => anEvent({ sessionId, occurredAt, payload: { n } })));

    expect((await listed(sessionId)).map(({ payload }) => payload.n)).toEqual([2, 0, 3, 1]);
  });

  test('are all acknowledged events of this session only', async () => {
    const [one, other] = [await game.session(), await game.session()];
    const created = (await game.post([anEvent({ sessionId: one }), anEvent({ sessionId: other })])).json();

    expect((await game.get(`/v1/sessions/${one}/events`)).json()).toEqual({
      events: [created[0]],
      next: null,
    });
    expect((await game.get(`/v1/sessions/${other}/events`)).json()).toEqual({
      events: [created[1]],
      next: null,
    });
  });

  test('are empty for a session without events', async () => {
    const answer = await game.get(`/v1/sessions/${await game.session()}/events`);

    expect(answer.status).toBe(200);
    expect(answer.json()).toEqual({ events: [], next: null });
  });
});

describe.concurrent('pages', () => {
  let sessionId: string;

  beforeAll(async () => {
    sessionId = await game.session();
    // Sends many events with the same time, so that a page ends between two of them.
    await game.post(events(90, { sessionId, occurredAt: '2026-02-02' }));
    await game.post(events(35, { sessionId, occurredAt: '2026-02-01' }));
  });

  test('have every event once, in order, for every page size', async () => {
    const whole = await listed(sessionId, 1000);
    expect(whole).toHaveLength(125);

    for (const limit of [7, 25, 124, 125]) {
      const pages = await pagesOf(sessionId, limit);
      expect(pages.flat()).toEqual(whole);
      expect(pages.slice(0, -1).every((page) => page.length === limit)).toBe(true);
    }
  });

  test('have 100 events by default', async () => {
    const page = (await game.get(`/v1/sessions/${sessionId}/events`)).json();

    expect(page.events).toHaveLength(100);
    expect(page.next).toEqual(expect.any(String));
  });

  test('end before they are too large, and continue there', async () => {
    const own = await game.session();
    const payload = (n: number) => ({ n, text: 'x'.repeat(240_000) });
    for (let n = 0; n < 150; n += 30) {
      const batch = Array.from({ length: 30 }, (_, i) =>
        anEvent({ sessionId: own, payload: payload(n + i) }),
      );
      expect((await game.post(batch)).status).toBe(201);
    }
    const first = await game.get(`/v1/sessions/${own}/events?limit=1000`);
    expect(first.text().length).toBeLessThan(32 * 1024 * 1024);
    const second = (
      await game.get(`/v1/sessions/${own}/events?limit=1000&cursor=${first.json().next}`)
    ).json();

    const ns = [...first.json().events, ...second.events].map(({ payload: { n } }: Listed) => n);
    expect(ns.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 150 }, (_, n) => n));
    expect(second.next).toBeNull();
  });

  test('end with next: null, also if the last page is full', async () => {
    expect((await game.get(`/v1/sessions/${sessionId}/events?limit=125`)).json().next).toBeNull();
    expect((await game.get(`/v1/sessions/${sessionId}/events?limit=1000`)).json().next).toBeNull();
  });

  test('continue while new events arrive', async () => {
    const own = await game.session();
    await game.post(events(4, { sessionId: own, occurredAt: '2026-03-01' }));
    const first = (await game.get(`/v1/sessions/${own}/events?limit=3`)).json();
    await game.post([
      anEvent({ sessionId: own, occurredAt: '2026-03-02', payload: { n: 4 } }),
      anEvent({ sessionId: own, occurredAt: '2026-02-01', payload: { n: 5 } }),
    ]);
    const second = (await game.get(`/v1/sessions/${own}/events?limit=3&cursor=${first.next}`)).json();

    expect([...first.events, ...second.events].map(({ payload }: Listed) => payload.n)).toEqual([
      0, 1, 2, 3, 4,
    ]);
    expect(second.next).toBeNull();
  });

  test.each(['0', '1001', '-1', '1.5', 'ten', '', '1e2', '0x10'])(
    'reject the limit %j with a 400',
    async (limit) => {
      const answer = await game.get(`/v1/sessions/${sessionId}/events?limit=${limit}`);

      expect(answer.status).toBe(400);
      expect(answer.json()).toMatchObject({
        code: 'invalid_request',
        detail: expect.stringContaining('limit'),
      });
    },
  );

  test.each(['x', '', 'MS4x', 'AAAA', '%00', "1'%20OR%201"])(
    'reject the unknown cursor %j with a 400',
    async (cursor) => {
      const answer = await game.get(`/v1/sessions/${sessionId}/events?cursor=${cursor}`);

      expect(answer.status).toBe(400);
      expect(answer.json()).toMatchObject({
        code: 'invalid_request',
        detail: expect.stringContaining('cursor'),
      });
    },
  );
});

describe.concurrent('a tenant with several lanes', () => {
  test('keeps the order of each session', async () => {
    const spread = await shared.aProject({ revision: 'A', spread: 8 });
    const sessions = await Promise.all(Array.from({ length: 8 }, () => spread.session()));
    for (let n = 0; n < 5; n++) {
      await spread.post(
        sessions.map((sessionId) => anEvent({ sessionId, occurredAt: '2026-04-01', payload: { n } })),
      );
    }

    for (const sessionId of sessions) {
      const page = (await spread.get(`/v1/sessions/${sessionId}/events`)).json();
      expect(page.events.map(({ payload }: Listed) => payload.n)).toEqual([0, 1, 2, 3, 4]);
    }
  });
});

async function listed(sessionId: string, limit = 100): Promise<Listed[]> {
  const answer = await game.get(`/v1/sessions/${sessionId}/events?limit=${limit}`);
  expect(answer.status).toBe(200);
  return answer.json().events;
}

async function pagesOf(sessionId: string, limit: number): Promise<Listed[][]> {
  const pages: Listed[][] = [];
  let cursor = '';
  for (;;) {
    const page = (await game.get(`/v1/sessions/${sessionId}/events?limit=${limit}${cursor}`)).json();
    pages.push(page.events);
    if (page.next === null) return pages;
    cursor = `&cursor=${page.next}`;
  }
}
