/** The bytes of a payload come back unchanged: in the answer, from GET and from ClickHouse; what is no JSON is a 400. */
import { validJson } from '@questlog/schemas/fixtures/validJson';
import { invalidJson } from '@questlog/schemas/fixtures/invalidJson';
import { beforeAll, describe, expect, test } from 'vitest';
import { rawEvent, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'B' });
});

const byHand = [
  '{"i":9007199254740993,"u":18446744073709551615,"big":123456789012345678901234567890}',
  '{"f":1.0,"z":-0,"y":-0.0,"e":1e400,"s":1E-400,"p":0.1000}',
  '{"b":1,"a":2,"B":3,"10":4,"9":5}',
  '{"a":1,"a":2,"a":{"a":3,"a":4}}',
  '{"e":"\\u0041\\/\\u00e9\\ud83d\\ude00\\b\\f\\n\\r\\t\\"\\\\"}',
  '{"lone":"\\ud800","other":"\\udfff\\ud800"}',
  '{"nul":"\\u0000","esc":"\\u001f","del":"\u007f"}',
  '{"text":"Ünï 任务 🗡️ \u2028\u2029 \ufeff \ufffd \uffff \u{10ffff}"}',
  '{ "spaces" :\t[ 1 ,\r\n 2 ] }',
  '{"__proto__":{"x":1},"constructor":1,"":0}',
  '{"":"","\\u0000":null," ":[]}',
];

describe('a payload', () => {
  test('of every valid document of the corpus comes back byte for byte', async () => {
    expect(validJson.length).toBeGreaterThanOrEqual(150);
    const payloads = validJson.map(({ bytes }) => Buffer.concat([Buffer.from('{"v":'), bytes, Buffer.from('}')]));

    await expectBytesBack(payloads);
  });

  test('of what most JSON libraries would change comes back byte for byte', async () => {
    await expectBytesBack(byHand.map((text) => Buffer.from(text)));
  });

  test('is the same whether it came alone or in a batch', async () => {
    const payload = Buffer.from(byHand.join('').length > 0 ? (byHand[4] ?? '') : '');
    const answer = await game.post(rawEvent(payload));

    expect(answer.status).toBe(201);
    expect(answer.bytes.includes(payload)).toBe(true);
  });
});

describe('a document that is not JSON', () => {
  test('is a 400 as a body, with a problem and never a 5xx', async () => {
    expect(invalidJson.length).toBeGreaterThanOrEqual(150);
    const outcomes = await inTurns(invalidJson, async ({ name, bytes }) => `${name}: ${await statusOf(bytes)}`);

    expect(outcomes).toEqual(invalidJson.map(({ name }) => `${name}: 400`));
  });

  test('is a 400 inside a payload, with a problem and never a 5xx', async () => {
    const inside = invalidJson.filter(({ topLevelOnly }) => topLevelOnly !== true);
    const outcomes = await inTurns(inside, async ({ name, bytes }) => {
      const payload = Buffer.concat([Buffer.from('{"v":'), bytes, Buffer.from('}')]);
      return `${name}: ${await statusOf(rawEvent(payload))}`;
    });

    expect(outcomes).toEqual(inside.map(({ name }) => `${name}: 400`));
    expect((await game.get(`/v1/events/00000000-0000-7000-8000-000000000000`)).status).toBe(404);
  });
});

describe('a valid document that is no event', () => {
  test('is a 400 as a body, or an event where it is one', async () => {
    const outcomes = await inTurns(validJson, async ({ name, bytes }) => `${name}: ${await statusOf(bytes)}`);

    expect(outcomes.filter((outcome) => !/: 400$/.test(outcome))).toEqual([]);
  });
});

async function expectBytesBack(payloads: readonly Buffer[]): Promise<void> {
  const created: { id: string; hex: string }[] = [];
  for (let at = 0; at < payloads.length; at += BATCH) {
    const part = payloads.slice(at, at + BATCH);
    const answer = await game.post(arrayOf(part.map((payload) => rawEvent(payload))));
    expect(answer.status).toBe(201);
    const ids: { id: string }[] = answer.json();
    let from = 0;
    part.forEach((payload, i) => {
      const id = ids[i]?.id ?? '';
      const start = answer.bytes.indexOf(`"id":"${id}"`, from);
      const payloadAt = answer.bytes.indexOf('"payload":', start) + '"payload":'.length;
      from = payloadAt + payload.length;
      expect(answer.bytes.subarray(payloadAt, from).toString('hex')).toBe(payload.toString('hex'));
      expect(answer.bytes.toString('utf8', from, from + 13)).toBe(',"reportIds":');
      created.push({ id, hex: payload.toString('hex').toUpperCase() });
    });
  }
  const last = created.at(-1);
  await game.get(`/v1/events/${last?.id}`);
  const rows = await shared.product.sql<{ id: string; hex: string }>(
    `SELECT id, hex(payload) AS hex FROM events WHERE project_id = '${game.projectId}'`,
  );
  const stored = new Map(rows.map(({ id, hex }) => [id, hex]));
  expect(created.map(({ id }) => ({ id, hex: stored.get(id) }))).toEqual(created);
  await inTurns(created, async ({ id, hex }) => {
    const { bytes } = await game.get(`/v1/events/${id}`);
    const payloadAt = bytes.indexOf('"payload":') + '"payload":'.length;
    expect(bytes.subarray(payloadAt, payloadAt + hex.length / 2).toString('hex').toUpperCase()).toBe(hex);
  });
}

const BATCH = 100;
const AT_ONCE = 8;

function arrayOf(elements: readonly Buffer[]): Buffer {
  const joined = elements.flatMap((element, i) => (i === 0 ? [element] : [Buffer.from(','), element]));
  return Buffer.concat([Buffer.from('['), ...joined, Buffer.from(']')]);
}

async function statusOf(body: Buffer): Promise<number> {
  const answer = await game.post(body);
  expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/);
  return answer.status;
}

async function inTurns<T, R>(all: readonly T[], work: (one: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < all.length; at += AT_ONCE) results.push(...(await Promise.all(all.slice(at, at + AT_ONCE).map(work))));
  return results;
}
