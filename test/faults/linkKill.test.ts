/**
 * Tests that links survive a `kill -9` at any instant: ClickHouse has exactly the join of events and reports, and a bug tracker
 * that resumes reads each link once.
 */
import { randomUUID } from 'node:crypto';
import { type Followed, follow, untilHas } from '@questlog/ingest/linkedEvents/streamClient.testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { aKey, anEvent, aProject, eventually, onto, type TestProject } from '../e2e/builders.ts';
import { type Product, removeDataDir, startProduct } from '../e2e/product.ts';
import { isSame, type JoinedLinks, joinAndLinks } from './joinedLinks.ts';
import { seeded, seedOfRun } from './seeded.ts';

const KILLS = 6;
const REQUESTS_A_LIFE = 25;
const LINKED_WITHIN_MS = 20_000;
const seed = seedOfRun();
const random = seeded(seed);

let product: Product;
let game: TestProject;
/** Ids of the links that the bug tracker received. */
const seen: string[] = [];
let position: string | undefined;

beforeAll(async () => {
  console.log(`seed of the kills: ${seed}`);
  product = await startProduct();
  game = await aProject(product, { revision: 'B', spread: 3 });
});
afterAll(async () => {
  await product.kill();
  await removeDataDir(product);
});

function look(): Promise<JoinedLinks> {
  return joinAndLinks(product, `project_id = '${game.projectId}'`);
}

/** A bug tracker that resumes after its last message. */
async function track(): Promise<Followed> {
  const at = position === undefined ? { from: 'start' } : { lastEventId: position };
  return await follow(product.credentials.baseUrl, { ...game }, at);
}

function keep(stream: Followed): void {
  stream.close();
  seen.push(...stream.linkIds());
  position = stream.messages.at(-1)?.id ?? position;
}

/** Sends events and reports concurrently with keys, so that a request without a response is repeated after the restart. */
function requests(sessions: readonly [string, ...string[]], events: string[]) {
  return Array.from({ length: REQUESTS_A_LIFE }, (_, i) => {
    const sessionId = random.pick(sessions);
    if (i % 3 === 0) {
      const body = { id: randomUUID(), sessionId, eventIds: events.slice(-random.between(0, 4) - 1) };
      return () => game.request('POST', '/v1/ingest/reports', { body });
    }
    const [key, body] = [aKey(), [anEvent({ sessionId }), anEvent({ payload: { i } })]];
    return async () => {
      const answer = await game.post(body, { 'Idempotency-Key': key });
      if (answer.status < 300) for (const { id } of answer.json()) events.push(id);
      return answer;
    };
  });
}

test('has no missing, duplicate, or false link after kills under load', async () => {
  const sessions = await Promise.all([game.session(), game.session(), game.session()]);
  const events: string[] = [];
  let unanswered: (() => Promise<{ status: number }>)[] = [];
  for (let life = 0; life <= KILLS; life++) {
    const stream = await track();
    const work = [...unanswered, ...requests([sessions[0] ?? '', ...sessions.slice(1)], events)];
    unanswered = [];
    const dies = life < KILLS ? random.between(0, work.length - 1) : undefined;
    const sent = work.map(async (send, i) => {
      if (i === dies) await product.kill();
      const answer = await send().catch(() => undefined);
      if (answer === undefined || answer.status >= 500) unanswered.push(send);
    });
    await Promise.all(sent);
    if (dies !== undefined) {
      keep(stream);
      product = await startProduct({ dataDir: product.dataDir });
      game = onto(game, product);
      continue;
    }
    expect(unanswered).toEqual([]);
    const joined = await eventually(look, isSame, LINKED_WITHIN_MS).catch(look);
    expect(joined.links).toEqual(joined.join);
    expect(joined.join.length).toBeGreaterThan(REQUESTS_A_LIFE);
    await untilHas(stream, joined.join.length - seen.length);
    keep(stream);
  }
  expect(new Set(seen).size).toBe((await look()).links.length);
  expect(seen.length).toBe(new Set(seen).size);
}, 120_000);
