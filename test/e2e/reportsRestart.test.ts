/** A restart keeps bug reports, their retractions, their open windows, and recognises repeats. */
import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { anEvent, anUnknownId, aProject, events, eventually, onto, type TestProject } from './builders.ts';
import { type Answer, bugsIn, type Product, removeDataDir, startProduct } from './product.ts';

const RECOVERED_WITHIN_MS = 45_000;
const isAnswered = ({ status }: Answer): boolean => status !== 503;

let before: Product;
let product: Product;
let game: TestProject;
let sessionId: string;
let body: Record<string, unknown>;
let filed: Answer;
let retracted: string;

beforeAll(async () => {
  before = await startProduct();
  game = await aProject(before, { revision: 'A' });
  sessionId = await game.session();
  body = { id: randomUUID(), sessionId, events: events(3, { sessionId }), eventIds: [anUnknownId()] };
  filed = await game.report(body);
  retracted = (await game.report({ sessionId, eventIds: [anUnknownId()] })).json().id;
  await game.request('DELETE', `/v1/reports/${retracted}`);
  await before.kill();
  product = await startProduct({ dataDir: before.dataDir });
  game = onto(game, product);
  return async () => {
    expect(await product.stop()).toBe(0);
    expect(bugsIn(product.stderr())).toEqual([]);
    await removeDataDir(product);
  };
});

test('the answer to a new event still carries the report of its session, and not the retracted one', async () => {
  // Of the report's window, however long the restart took.
  const { occurredAt } = filed.json();
  const [event] = (await game.post(anEvent({ sessionId, occurredAt }))).json();

  expect(event.reportIds).toEqual([body['id']]);
});

test('the same report is still the same, and another one under its id still a 409', {
  timeout: 2 * RECOVERED_WITHIN_MS,
}, async () => {
  // On Kafka the groups wait for the killed members' sessions to end; until then clients get a 503.
  const again = await eventually(() => game.report(body), isAnswered, RECOVERED_WITHIN_MS);
  const other = await game.report({ id: body['id'], sessionId });

  expect([again.status, other.status]).toEqual([200, 409]);
  const ids = (answer: Answer) => answer.json().events.map(({ id }: { id: string }) => id);
  expect(ids(again)).toEqual(ids(filed));
  expect(again.json()).toMatchObject({
    id: body['id'],
    occurredAt: filed.json().occurredAt,
    receivedAt: filed.json().receivedAt,
  });
  const page = await game.get(`/v1/sessions/${sessionId}/events`);
  expect(page.json().events).toHaveLength(4);
});

test('a retracted report is still retracted, and retracting it again changes nothing', async () => {
  expect((await game.request('DELETE', `/v1/reports/${retracted}`)).status).toBe(204);
  const report = (await game.get(`/v1/reports/${retracted}`)).json();

  expect(report.state).toBe('retracted');
  expect(new Set(report.links.map(({ state }: { state: string }) => state))).toEqual(new Set(['retracted']));
});

test('a report of before can be retracted', async () => {
  const { id } = (await game.report({ sessionId: game.sessionId })).json();
  expect((await game.request('DELETE', `/v1/reports/${body['id']}`)).status).toBe(204);
  expect((await game.get(`/v1/reports/${body['id']}`)).json().state).toBe('retracted');

  expect((await game.get(`/v1/reports/${id}`)).json().state).toBe('filed');
  expect((await game.post(anEvent({ sessionId }))).json()[0].reportIds).toEqual([]);
});
