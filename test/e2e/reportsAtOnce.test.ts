/** Tests that the first read after a report or an event is correct. The read must not depend on the linker. */
import { randomUUID } from 'node:crypto';
import { keyedTails } from '@questlog/ingest/events/core/keyedIds';
import { eventId, millisOf } from '@questlog/schemas/uuid';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  aKey,
  anEvent,
  anUnknownId,
  events,
  type ListedEvent,
  type ListedLink,
  sha256,
  type TestProject,
} from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'B' });
});

describe('immediately after a 201 of a report', () => {
  test('a named event shows the report in every read', async () => {
    const sessionId = await game.session();
    const [stored] = (await game.post(anEvent({ sessionId, occurredAt: '2020-01-01' }))).json();
    const { id } = (await game.report({ eventIds: [stored.id] })).json();

    expect(await reportsOf(stored.id)).toEqual([id]);
    expect((await page(`/v1/sessions/${sessionId}/events`)).map(({ reportIds }) => reportIds)).toEqual([
      [id],
    ]);
    expect(await linksOf(id)).toEqual([{ eventId: stored.id, state: 'linked', source: 'named' }]);
  });

  test('its events are listed with their source and all their reports', async () => {
    const [stored] = (await game.post(anEvent())).json();
    const first = (await game.report({ eventIds: [stored.id] })).json();
    const second = (await game.report({ eventIds: [stored.id, anUnknownId()] })).json();

    expect(await page(`/v1/reports/${second.id}/events`)).toMatchObject([
      {
        id: stored.id,
        reportIds: [first.id, second.id].toSorted(),
        link: { state: 'linked', source: 'named' },
      },
    ]);
  });

  test('its inline events are linked, in all lanes of its tenant', async () => {
    const spread = await shared.aProject({ revision: 'B', spread: 8 });
    const sessions = await Promise.all(Array.from({ length: 8 }, () => spread.session()));
    const created = (
      await spread.report({ events: sessions.map((sessionId) => anEvent({ sessionId })) })
    ).json();
    const ids: string[] = created.events.map(({ id }: ListedEvent) => id);

    expect(await reportsOf(ids[7], spread)).toEqual([created.id]);
    expect(await linksOf(created.id, spread)).toEqual(
      ids.toSorted().map((of) => ({ eventId: of, state: 'linked', source: 'inline' })),
    );
    const listed = await page(`/v1/reports/${created.id}/events`, spread);
    expect(listed.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
  });

  test('exactly the earlier events of its session in the window are linked', async () => {
    const sessionId = await game.session();
    const at = (second: number) => ({ sessionId, occurredAt: new Date(second * 1000).toISOString() });
    const posted = (await game.post([0, 1, 599, 601, 662].map((second) => anEvent(at(second))))).json();
    const other = (await game.post(anEvent({ ...at(600), sessionId: await game.session() }))).json();
    const { id } = (await game.report(at(601))).json();
    const inside = posted.slice(1, 4).map((event: ListedEvent) => event.id);

    expect(await reportsOf(posted[2].id)).toEqual([id]);
    expect(await linksOf(id)).toEqual(
      inside.toSorted().map((of: string) => ({ eventId: of, state: 'linked', source: 'session' })),
    );
    const listed = await page(`/v1/reports/${id}/events`);
    expect(listed.map((event) => [event.id, event.reportIds, event.link])).toEqual(
      inside.map((of: string) => [of, [id], { state: 'linked', source: 'session' }]),
    );
    const ofSession = await page(`/v1/sessions/${sessionId}/events`);
    expect(ofSession.map(({ reportIds }) => reportIds)).toEqual([[], [id], [id], [id], []]);
    expect(await reportsOf(other[0].id)).toEqual([]);
  });

  test('its events are in pages, each once and in order', async () => {
    const sessionId = await game.session();
    const posted = (
      await game.post(events(7, { sessionId, occurredAt: new Date(9_000).toISOString() }))
    ).json();
    const { id } = (
      await game.report({ sessionId, occurredAt: new Date(9_001).toISOString(), eventIds: [posted[3].id] })
    ).json();
    const seen: string[] = [];
    for (let cursor = ''; ; ) {
      const answer = (await game.get(`/v1/reports/${id}/events?limit=3${cursor}`)).json();
      seen.push(...answer.events.map((event: ListedEvent) => event.id));
      if (answer.next === null) break;
      cursor = `&cursor=${answer.next}`;
    }
    expect(seen).toEqual(posted.map((event: ListedEvent) => event.id));
    expect(await linksOf(id)).toEqual(
      seen.toSorted().map((of) => {
        return { eventId: of, state: 'linked', source: of === posted[3].id ? 'named' : 'session' };
      }),
    );
  });

  test('a named event of another project is not linked', async () => {
    const other = await shared.aProject({ revision: 'B', tenantId: game.tenantId });
    const [foreign] = (await other.post(anEvent())).json();
    const { id } = (await game.report({ eventIds: [foreign.id] })).json();
    await other.report({ eventIds: [anUnknownId()] });

    expect(await reportsOf(foreign.id, other)).toEqual([]);
    expect(await linksOf(id)).toEqual([{ eventId: foreign.id, state: 'pending', source: 'named' }]);
    expect(await page(`/v1/reports/${id}/events`)).toEqual([]);
  });

  test('a retry and a read have the links in the order of the 201', async () => {
    const posted = (await game.post(events(3))).json();
    const named: string[] = [...posted.map(({ id }: ListedEvent) => id), anUnknownId(), anUnknownId()];
    const body = { id: randomUUID(), events: events(2), eventIds: named.toSorted().toReversed() };
    const filed = await game.report(body);
    const again = await game.report(body);

    expect([filed.status, again.status]).toEqual([201, 200]);
    const idsIn = (links: ListedLink[]) => links.map((link) => link.eventId);
    const order = idsIn(filed.json().links);
    expect(order).toEqual(order.toSorted());
    expect(idsIn(again.json().links)).toEqual(order);
    expect(idsIn(await linksOf(body.id))).toEqual(order);
  });
});

describe('immediately after a 201 of an event', () => {
  test('the report that named it earlier is in the response', async () => {
    const [key, body] = [aKey(), JSON.stringify(anEvent())];
    const coming = eventId(millisOf(key), 0, keyedTails(game.projectId, { key, digest: sha256(body) }, [0]));
    const { id } = (await game.report({ eventIds: [coming] })).json();
    const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key };
    const [created] = (await game.post(body, headers)).json();

    expect([created.id, created.reportIds]).toEqual([coming, [id]]);
    expect(await reportsOf(coming)).toEqual([id]);
    expect(await linksOf(id)).toEqual([{ eventId: coming, state: 'linked', source: 'named' }]);
    expect(await page(`/v1/reports/${id}/events`)).toMatchObject([{ id: coming, reportIds: [id] }]);
    expect((await game.post(body, headers)).json()[0].reportIds).toEqual([id]);
  });

  test('the report whose window contains it shows it', async () => {
    const sessionId = await game.session();
    const { id } = (await game.report({ sessionId })).json();
    const [created] = (await game.post(anEvent({ sessionId }))).json();

    expect(await reportsOf(created.id)).toEqual([id]);
    expect(await linksOf(id)).toEqual([{ eventId: created.id, state: 'linked', source: 'session' }]);
    expect(await page(`/v1/reports/${id}/events`)).toMatchObject([{ id: created.id, reportIds: [id] }]);
  });
});

async function reportsOf(id: string | undefined, of: TestProject = game): Promise<string[]> {
  return (await of.get(`/v1/events/${id}`)).json().reportIds;
}

async function linksOf(reportId: string, of: TestProject = game): Promise<ListedLink[]> {
  return (await of.get(`/v1/reports/${reportId}`)).json().links;
}

async function page(path: string, of: TestProject = game): Promise<ListedEvent[]> {
  return (await of.get(path)).json().events;
}
