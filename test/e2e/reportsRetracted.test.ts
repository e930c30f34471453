/** Tests that the first read after a retraction is correct. The read must not depend on the linker. */
import { beforeAll, describe, expect, test } from 'vitest';
import {
  aKey,
  anEvent,
  eventually,
  type ListedEvent,
  type ListedLink,
  type TestProject,
} from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'B' });
});

describe('immediately after a retraction', () => {
  test('its events do not show the report and its links are retracted, before the linker has linked them', async () => {
    const sessionId = await game.session();
    const [before] = (await game.post(anEvent({ sessionId }))).json();
    const created = (await game.report({ sessionId, events: [anEvent({ sessionId })] })).json();
    await game.request('DELETE', `/v1/reports/${created.id}`);

    await expectRetracted(created.id, sessionId, [
      { eventId: before.id, source: 'session' },
      { eventId: created.events[0].id, source: 'inline' },
    ]);
  });

  test('its events do not show the report and its links are retracted, after the linker has linked them', async () => {
    const sessionId = await game.session();
    const key = { 'Idempotency-Key': aKey() };
    const event = anEvent({ sessionId });
    const [before] = (await game.post(event, key)).json();
    const created = (await game.report({ sessionId, events: [anEvent({ sessionId })] })).json();
    await untilLinked(created.id, 2);
    await game.request('DELETE', `/v1/reports/${created.id}`);

    expect((await game.post(event, key)).json()[0].reportIds).toEqual([]);
    await expectRetracted(created.id, sessionId, [
      { eventId: before.id, source: 'session' },
      { eventId: created.events[0].id, source: 'inline' },
    ]);
  });

  test('an event keeps other reports', async () => {
    const [stored] = (await game.post(anEvent())).json();
    const [kept, gone] = [
      (await game.report({ eventIds: [stored.id] })).json().id,
      (await game.report({ eventIds: [stored.id] })).json().id,
    ];
    await untilLinked(gone, 1);
    await game.request('DELETE', `/v1/reports/${gone}`);

    expect(await reportsOf(stored.id)).toEqual([kept]);
    expect(await page(`/v1/reports/${gone}/events`)).toMatchObject([
      { id: stored.id, reportIds: [kept], link: { state: 'retracted', source: 'named' } },
    ]);
  });

  test('does not link later events of its session', async () => {
    const sessionId = await game.session();
    const { id } = (await game.report({ sessionId })).json();
    await game.request('DELETE', `/v1/reports/${id}`);
    // Waits for the next millisecond, because an event in the same millisecond counts as earlier than the retraction.
    await eventually(async () => Date.now(), movedOnFrom(Date.now()));
    const [late] = (await game.post(anEvent({ sessionId }))).json();

    expect(late.reportIds).toEqual([]);
    expect(await reportsOf(late.id)).toEqual([]);
    expect(await linksOf(id)).toEqual([]);
    expect(await page(`/v1/reports/${id}/events`)).toEqual([]);
  });
});

async function expectRetracted(
  id: string,
  sessionId: string,
  links: readonly Omit<ListedLink, 'state'>[],
): Promise<void> {
  const read = (await game.get(`/v1/reports/${id}`)).json();
  expect(read.state).toBe('retracted');
  expect(read.links).toEqual(
    links
      .map((link) => ({ ...link, state: 'retracted' }))
      .toSorted((a, b) => (a.eventId < b.eventId ? -1 : 1)),
  );
  for (const { eventId: of } of links) expect(await reportsOf(of)).toEqual([]);
  expect((await page(`/v1/sessions/${sessionId}/events`)).map(({ reportIds }) => reportIds)).toEqual(
    links.map(() => []),
  );
  const listed = await page(`/v1/reports/${id}/events`);
  expect(listed.map((event) => [event.id, event.reportIds, event.link])).toEqual(
    links.map(({ eventId: of, source }) => [of, [], { state: 'retracted', source }]),
  );
}

/** Waits until ClickHouse has `count` links of the report. */
async function untilLinked(reportId: string, count: number): Promise<void> {
  await eventually(
    () =>
      shared.product.sql(
        `SELECT event_id FROM report_links WHERE report_id = '${reportId}' AND state = 'linked'`,
      ),
    (rows) => rows.length === count,
    20_000,
  );
}

async function reportsOf(id: string | undefined): Promise<string[]> {
  return (await game.get(`/v1/events/${id}`)).json().reportIds;
}

async function linksOf(reportId: string): Promise<ListedLink[]> {
  return (await game.get(`/v1/reports/${reportId}`)).json().links;
}

async function page(path: string): Promise<ListedEvent[]> {
  return (await game.get(path)).json().events;
}

function movedOnFrom(millis: number): (nowMs: number) => boolean {
  return (nowMs) => nowMs > millis;
}
