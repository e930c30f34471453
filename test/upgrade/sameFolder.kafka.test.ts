/**
 * Tests an upgrade of the single process: the previous version and this version alternate on one data folder. Runs with the
 * Kafka tests, because it starts the product four times, but does not use Kafka.
 */
import { readFileSync, rmSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { aKey, anEvent, aProject, events, eventually, onto, type TestProject } from '../e2e/builders.ts';
import { emptyDataDir, type Product, startProduct } from '../e2e/product.ts';
import { checkOut, TRIED_BEFORE, VERSION_BEFORE } from './versionBefore.ts';

const WITHIN_MS = 600_000;
const SHOWN_WITHIN_MS = 60_000;
/** Number of events of a request with a key: more than ten, because the id depends on the digits of an event's index. */
const EVENTS_OF_KEY = 12;

test('the upgrade page names the tested version', () => {
  const page = readFileSync(new URL('../../docs/operating/upgrade.md', import.meta.url), 'utf8');
  expect(page).toContain(`the commit \`${TRIED_BEFORE}\``);
});

test(
  `the previous version, ${VERSION_BEFORE}, and this version use each other’s data folder`,
  async ({ skip }) => {
    const before = checkOut(VERSION_BEFORE);
    if ('lack' in before) {
      console.log(`skipped: no version to upgrade from: ${before.lack}`);
      return skip(before.lack);
    }
    const dataDir = emptyDataDir();
    onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
    const taken: string[] = [];
    const keyedRequests: KeyedRequest[] = [];
    let game: TestProject | undefined;
    for (const entry of [before.entry, undefined, before.entry, undefined]) {
      const product = await startProduct({ dataDir, entry });
      onTestFinished(() => product.kill());
      game = game === undefined ? await aProject(product, { revision: 'B' }) : onto(game, product);
      // A new process has no cached keys. For a retry, the process finds the stored events by the ids that its version computes.
      for (const request of keyedRequests) await expectReplay(game, request);
      keyedRequests.push(await sendKeyed(game));
      taken.push(...(keyedRequests.at(-1)?.ids ?? []), await sendEvent(game));
      for (const id of taken) await waitForBody(game, `/v1/events/${id}`);
      expect(await storedIds(product, game)).toEqual(taken);
      expect(await product.stop()).toBe(0);
    }
  },
  WITHIN_MS,
);

interface KeyedRequest {
  readonly key: string;
  readonly body: readonly object[];
  /** Ids of the stored events. */
  readonly ids: readonly string[];
}

async function sendKeyed(game: TestProject): Promise<KeyedRequest> {
  const { sessionId } = game;
  const [key, body] = [aKey(), events(EVENTS_OF_KEY, { sessionId })];
  const answer = await game.post(body, { 'Idempotency-Key': key });
  expect(answer.status, answer.text()).toBe(201);
  return { key, body, ids: answer.json().map(({ id }: { id: string }) => id) };
}

async function expectReplay(game: TestProject, { key, body, ids }: KeyedRequest): Promise<void> {
  const answer = await game.post(body, { 'Idempotency-Key': key });
  expect(answer.status, answer.text()).toBe(200);
  expect(answer.json().map(({ id }: { id: string }) => id)).toEqual(ids);
}

/** Sends an event and a report, and waits for their link. @returns the id of the event. */
async function sendEvent(game: TestProject): Promise<string> {
  const { sessionId } = game;
  const answer = await game.post(anEvent({ sessionId }));
  expect(answer.status, answer.text()).toBe(201);
  const [{ id }] = answer.json();
  const filed = await game.report({ eventIds: [id] });
  expect(filed.status, filed.text()).toBe(201);
  const link = async () => (await waitForBody(game, `/v1/reports/${filed.json().id}`)).links;
  await eventually(link, (links) => links?.[0]?.state === 'linked', SHOWN_WITHIN_MS);
  return id;
}

// biome-ignore lint/suspicious/noExplicitAny: the test reads several kinds of responses.
async function waitForBody(game: TestProject, path: string): Promise<any> {
  const ask = async () => {
    const answer = await game.get(path);
    return { status: answer.status, body: answer.json() };
  };
  return (await eventually(ask, ({ status }) => status === 200, SHOWN_WITHIN_MS)).body;
}

/** Returns the ids in the order of the log. */
async function storedIds(product: Product, { projectId }: TestProject): Promise<string[]> {
  const query = `SELECT toString(id) AS id FROM events WHERE project_id = '${projectId}' ORDER BY log_offset, log_index`;
  return (await product.sql<{ id: string }>(query)).map(({ id }) => id);
}
