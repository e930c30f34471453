/** Tests that the bytes of payloads are unchanged in the answer, in GET, and in ClickHouse. */
import { validJson } from '@questlog/schemas/fixtures/validJson';
import { beforeAll, describe, expect, test } from 'vitest';
import { rawEvent, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'B' });
});

/** Payloads that most JSON libraries would change when they parse and serialize them. */
const delicate = [
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
].map((text) => Buffer.from(text));

describe('a payload', () => {
  test('of every valid document of the corpus is returned byte for byte', async () => {
    expect(validJson.length).toBeGreaterThanOrEqual(150);
    await store(validJson.map(({ bytes }) => member(bytes)));
  });

  test('that most JSON libraries would change is returned byte for byte, also by single reads', async () => {
    const ids = await store(delicate);
    const read = await Promise.all(ids.map((id) => game.get(`/v1/events/${id}`)));

    expect(read.map(({ bytes }) => payloadsIn(bytes, ids, delicate))).toEqual(
      delicate.map((bytes) => [hexOf(bytes)]),
    );
  });

  test('sent alone is returned as in a batch', async () => {
    for (const payload of delicate) {
      const answer = await game.post(rawEvent(payload));
      const { id } = answer.json()[0];
      expect(payloadsIn(answer.bytes, [id], [payload])).toEqual([hexOf(payload)]);
    }
  });
});

/** Sends the payloads in batches. Compares each payload with the answer, the events of the session, and ClickHouse. */
async function store(payloads: readonly Buffer[]): Promise<string[]> {
  const expected = payloads.map(hexOf);
  const sessionId = await game.session();
  const ids: string[] = [];
  for (let at = 0; at < payloads.length; at += BATCH) {
    const part = payloads.slice(at, at + BATCH);
    const answer = await game.post(arrayOf(part.map((payload) => rawEvent(payload, { sessionId }))));
    expect(answer.status).toBe(201);
    const created: string[] = answer.json().map(({ id }: { id: string }) => id);
    expect(payloadsIn(answer.bytes, created, part)).toEqual(part.map(hexOf));
    ids.push(...created);
  }

  const page = await game.get(`/v1/sessions/${sessionId}/events?limit=1000`);
  expect(payloadsIn(page.bytes, ids, payloads)).toEqual(expected);
  const rows = await shared.product.sql<{ id: string; hex: string }>(
    `SELECT id, lower(hex(payload)) AS hex FROM events WHERE session_id = '${sessionId}'`,
  );
  const stored = new Map(rows.map(({ id, hex }) => [id, hex]));
  expect(ids.map((id) => stored.get(id))).toEqual(expected);
  return ids;
}

/** Returns the bytes of the payloads of these events in the answer. Does not parse the answer. */
function payloadsIn(answer: Buffer, ids: readonly string[], payloads: readonly Buffer[]): string[] {
  return ids.flatMap((id, i) => {
    const at = answer.indexOf(`"id":"${id}"`);
    if (at === -1) return [];
    const start = answer.indexOf(NAME, at) + NAME.length;
    const end = start + (payloads[i]?.length ?? 0);
    const isWhole = answer.subarray(end).indexOf(',"reportIds":') === 0;
    return [isWhole ? hexOf(answer.subarray(start, end)) : `unexpected bytes after the payload of ${id}`];
  });
}

const NAME = '"payload":';
const BATCH = 100;

function member(value: Buffer): Buffer {
  return Buffer.concat([Buffer.from('{"v":'), value, Buffer.from('}')]);
}

function arrayOf(elements: readonly Buffer[]): Buffer {
  const joined = elements.flatMap((element, i) => (i === 0 ? [element] : [Buffer.from(','), element]));
  return Buffer.concat([Buffer.from('['), ...joined, Buffer.from(']')]);
}

function hexOf(bytes: Buffer): string {
  return bytes.toString('hex');
}
