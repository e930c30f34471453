/** Tests that a restart keeps bug reports, retractions, open windows, and the detection of retries. */
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

test('the response to a new event has the report of its session, but not the retracted report', async () => {
  // Uses a time in the window of the report, so that the duration of the restart does not matter.
  const { occurredAt } = filed.json();
  const [event] = (await game.post(anEvent({ sessionId, occurredAt }))).json();

  expect(event.reportIds).toEqual([body['id']]);
});

test('a retry still returns the report, and other content still gets a 409', {
  timeout: 2 * RECOVERED_WITHIN_MS,
}, async () => {
  // Retries, because on Kafka clients get a 503 until the group sessions of the killed members have expired.
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

test('a retracted report stays retracted, and another retraction changes nothing', async () => {
  expect((await game.request('DELETE', `/v1/reports/${retracted}`)).status).toBe(204);
  const report = (await game.get(`/v1/reports/${retracted}`)).json();

  expect(report.state).toBe('retracted');
  expect(new Set(report.links.map(({ state }: { state: string }) => state))).toEqual(new Set(['retracted']));
});

test('a report from before the restart can be retracted', async () => {
  const { id } = (await game.report({ sessionId: game.sessionId })).json();
  expect((await game.request('DELETE', `/v1/reports/${body['id']}`)).status).toBe(204);
  expect((await game.get(`/v1/reports/${body['id']}`)).json().state).toBe('retracted');

  expect((await game.get(`/v1/reports/${id}`)).json().state).toBe('filed');
  expect((await game.post(anEvent({ sessionId }))).json()[0].reportIds).toEqual([]);
});
