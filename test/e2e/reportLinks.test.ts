/** Tests links. The events that a report names and the events of its session must be linked in all places within 20 s. */
import { randomUUID } from 'node:crypto';
import { keyedTails } from '@questlog/ingest/events/core/keyedIds';
import { eventId, millisOf } from '@questlog/schemas/uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import { aKey, anEvent, events, eventually, type ListedLink, sha256, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

/** Time within which a change of a link must be visible. */
const LINKED_WITHIN_MS = 20_000;
const MINUTE_MS = 60_000;

interface Listed {
  readonly id: string;
  readonly reportIds: string[];
  readonly payload: { readonly n: number };
  readonly link: { readonly state: string; readonly source: string };
}

beforeAll(async () => {
  game = await shared.aProject({ revision: 'B' });
});

describe.concurrent('an event that a report names', () => {
  test('is linked in the report, the event, its session, and the report’s events', async () => {
    const sessionId = await game.session();
    const [stored] = (await game.post(anEvent({ sessionId, occurredAt: '2020-01-01' }))).json();
    const { id } = (await game.report({ eventIds: [stored.id] })).json();

    expect(await linked(id)).toEqual([{ eventId: stored.id, state: 'linked', source: 'named' }]);
    expect(await reportsOf(stored.id, 1)).toEqual([id]);
    const ofSession = (await game.get(`/v1/sessions/${sessionId}/events`)).json();
    expect(ofSession.events[0].reportIds).toEqual([id]);
    const page = (await game.get(`/v1/reports/${id}/events`)).json();
    expect(page).toMatchObject({
      events: [{ ...stored, reportIds: [id], link: { state: 'linked', source: 'named' } }],
      next: null,
    });
  });

  test('is linked if it arrives after the report', async () => {
    const [key, body] = [aKey(), JSON.stringify(anEvent())];
    const tail = keyedTails(game.projectId, { key, digest: sha256(body) }, [0]);
    const coming = eventId(millisOf(key), 0, tail);
    const { id } = (await game.report({ eventIds: [coming] })).json();
    expect((await game.get(`/v1/reports/${id}`)).json().links).toEqual([
      { eventId: coming, state: 'pending', source: 'named' },
    ]);

    const posted = await game.post(body, { 'Content-Type': 'application/json', 'Idempotency-Key': key });
    expect(posted.json()[0].id).toBe(coming);
    expect(await linked(id)).toEqual([{ eventId: coming, state: 'linked', source: 'named' }]);
    expect(await reportsOf(coming, 1)).toEqual([id]);
  });

  test('is linked as inline if the report contains it, in all lanes of its tenant', async () => {
    const spread = await shared.aProject({ revision: 'B', spread: 8 });
    const sessions = await Promise.all(Array.from({ length: 8 }, () => spread.session()));
    const inline = sessions.map((sessionId, n) => anEvent({ sessionId, payload: { n } }));
    const created = (await spread.report({ events: inline })).json();
    const ids: string[] = created.events.map(({ id }: Listed) => id);

    const links = await linked(created.id, 8, spread);
    expect(links.map(({ eventId: of }) => of)).toEqual(ids.toSorted());
    expect(new Set(links.map(({ source }) => source))).toEqual(new Set(['inline']));
    const page: Listed[] = (await spread.get(`/v1/reports/${created.id}/events`)).json().events;
    expect(page.map(({ payload }) => payload.n).toSorted()).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  test('is never linked if it belongs to another project', async () => {
    const other = await shared.aProject({ revision: 'B', tenantId: game.tenantId });
    const [foreign] = (await other.post(anEvent())).json();
    const [own] = (await game.post(anEvent())).json();
    expect((await other.get(`/v1/events/${foreign.id}`)).status).toBe(200);
    const { id } = (await game.report({ eventIds: [foreign.id, own.id] })).json();

    await linked(id, 1);
    const { links } = (await game.get(`/v1/reports/${id}`)).json();
    expect(links.find((link: ListedLink) => link.eventId === foreign.id)?.state).toBe('pending');
    expect((await other.get(`/v1/events/${foreign.id}`)).json().reportIds).toEqual([]);
    expect((await game.get(`/v1/reports/${id}/events`)).json().events).toMatchObject([{ id: own.id }]);
  });

  test('is linked to several reports, sorted', async () => {
    const [stored] = (await game.post(anEvent())).json();
    const ids = await Promise.all(
      Array.from({ length: 3 }, async () => (await game.report({ eventIds: [stored.id] })).json().id),
    );

    expect(await reportsOf(stored.id, 3)).toEqual(ids.toSorted());
  });
});

describe.concurrent('an event of a report’s session', () => {
  test('is linked if its time is in the window, before or after the report', async () => {
    const sessionId = await game.session();
    const nowMs = Date.now();
    const at = (millis: number, n: number) =>
      anEvent({ sessionId, occurredAt: new Date(nowMs + millis).toISOString(), payload: { n } });
    const before = await game.post([at(-10 * MINUTE_MS - 1, 0), at(-10 * MINUTE_MS, 1), at(-MINUTE_MS, 2)]);
    const filed = await game.report({ sessionId, occurredAt: new Date(nowMs).toISOString() });
    const { id } = filed.json();
    const after = await game.post([at(0, 3), at(MINUTE_MS, 4), at(MINUTE_MS + 1, 5)]);

    expect(after.json().map(({ reportIds }: Listed) => reportIds)).toEqual([[id], [id], []]);
    const links = await linked(id, 4);
    const all: Listed[] = [...before.json(), ...after.json()];
    const inside = all.filter(({ payload: { n } }) => n >= 1 && n <= 4);
    expect(links.map((link) => link.eventId)).toEqual(inside.map((event) => event.id).toSorted());
    expect(new Set(links.map(({ source }) => source))).toEqual(new Set(['session']));
    const page: Listed[] = (await game.get(`/v1/sessions/${sessionId}/events`)).json().events;
    expect(page.map(({ reportIds }) => reportIds)).toEqual([[], [id], [id], [id], [id], []]);
  });

  test('is answered with the report while the window is open, and without it after the retraction', async () => {
    const sessionId = await game.session();
    const ids = [randomUUID(), randomUUID()].toSorted();
    for (const id of ids) await game.report({ id, sessionId });
    const both = (await game.post(anEvent({ sessionId }))).json()[0];
    await game.request('DELETE', `/v1/reports/${ids[0]}`);
    const one = (await game.post(anEvent({ sessionId }))).json()[0];

    expect([both.reportIds, one.reportIds]).toEqual([ids, [ids[1]]]);
    expect(await reportsOf(both.id, 1)).toEqual([ids[1]]);
  });

  test('is answered with both reports if another report contains it', async () => {
    const sessionId = await game.session();
    const first = (await game.report({ sessionId })).json();
    const second = (await game.report({ events: [anEvent({ sessionId })] })).json();

    const ids = [first.id, second.id].toSorted();
    expect(second.events[0].reportIds).toEqual(ids);
    expect(await reportsOf(second.events[0].id, 2)).toEqual(ids);
  });

  test('is not linked by session if the event has no session', async () => {
    const sessionId = await game.session();
    const { id } = (await game.report({ sessionId })).json();
    const posted = (await game.post([anEvent(), anEvent({ sessionId })])).json();

    expect(posted.map(({ reportIds }: Listed) => reportIds)).toEqual([[], [id]]);
    expect(await linked(id)).toMatchObject([{ eventId: posted[1].id }]);
    expect((await game.get(`/v1/events/${posted[0].id}`)).json().reportIds).toEqual([]);
  });

  test('is in its report’s pages once and in order, for every page size', async () => {
    const sessionId = await game.session();
    const { id } = (await game.report({ sessionId, occurredAt: '2026-02-01T00:00:00Z' })).json();
    await game.post(events(25, { sessionId, occurredAt: '2026-02-01T00:00:01Z' }));
    await linked(id, 25);
    const pages: Listed[] = [];
    let cursor = '';
    for (let page = 0; page < 4; page++) {
      const answer = (await game.get(`/v1/reports/${id}/events?limit=7${cursor}`)).json();
      pages.push(...answer.events);
      cursor = `&cursor=${answer.next}`;
      expect(answer.next === null).toBe(page === 3);
    }
    expect(pages.map(({ payload }) => payload.n)).toEqual(Array.from({ length: 25 }, (_, n) => n));
  });
});

describe.concurrent('a retracted report', () => {
  test('retracts its links in the events, the report, and the report’s events', async () => {
    const sessionId = await game.session();
    const created = (await game.report({ sessionId, events: [anEvent({ sessionId })] })).json();
    const [event] = created.events;
    await linked(created.id);
    expect((await game.request('DELETE', `/v1/reports/${created.id}`)).status).toBe(204);

    expect(await reportsOf(event.id, 0)).toEqual([]);
    const report = (await game.get(`/v1/reports/${created.id}`)).json();
    expect(report).toMatchObject({
      state: 'retracted',
      links: [{ eventId: event.id, state: 'retracted', source: 'inline' }],
    });
    const page = (await game.get(`/v1/reports/${created.id}/events`)).json();
    expect(page.events).toMatchObject([
      { id: event.id, reportIds: [], link: { state: 'retracted', source: 'inline' } },
    ]);
  });
});

describe.concurrent('a repeated request', () => {
  test('is answered with the current links', async () => {
    const key = { 'Idempotency-Key': aKey() };
    const event = anEvent();
    const [created] = (await game.post(event, key)).json();
    expect(created.reportIds).toEqual([]);
    const { id } = (await game.report({ eventIds: [created.id] })).json();
    await linked(id);

    const again = await game.post(event, key);
    expect([again.status, again.json()[0].reportIds]).toEqual([200, [id]]);
    await game.request('DELETE', `/v1/reports/${id}`);
    await reportsOf(created.id, 0);
    expect((await game.post(event, key)).json()[0].reportIds).toEqual([]);
  });
});

/** Waits until the report has `count` links in the state linked, and returns the links. */
async function linked(reportId: string, count = 1, of: TestProject = game): Promise<ListedLink[]> {
  return await eventually(
    async () => {
      const { links } = (await of.get(`/v1/reports/${reportId}`)).json();
      return links.filter(({ state }: ListedLink) => state === 'linked');
    },
    (links) => links.length === count,
    LINKED_WITHIN_MS,
  );
}

/** Waits until the event has `count` reports, and returns the ids of the reports. */
async function reportsOf(id: string, count: number): Promise<string[]> {
  return await eventually(
    async () => (await game.get(`/v1/events/${id}`)).json().reportIds,
    (reportIds: string[]) => reportIds.length === count,
    LINKED_WITHIN_MS,
  );
}
