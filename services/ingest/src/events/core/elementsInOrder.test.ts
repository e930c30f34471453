/**
 * Compares the code for events with simple, slow code for damaged bodies: valid elements with the result of the schema, records
 * with the records of avsc, and responses with `JSON.stringify`. Compares the two ways to read a body with each other.
 */
import { isUtf8 } from 'node:buffer';
import { invalidJson } from '@questlog/schemas/fixtures/invalidJson';
import { validJson } from '@questlog/schemas/fixtures/validJson';
import { BATCH_CAP } from '@questlog/schemas/http/event';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Dice, damageable, damaged, deep, KEY, members, SESSION } from '../damagedBodies.testing.ts';
import {
  aRequest,
  expectSame,
  fail,
  readTheLongWay,
  storedOf,
  storedTheLongWay,
} from '../storedRequests.testing.ts';
import { problemsOf, readElements } from './envelope.ts';
import { EventColumns } from './eventColumns.ts';
import { scanBody, scanRequest } from './scanBody.ts';

interface Seen {
  inOrder: number;
  wrong: number;
  /** Number of requests that `EventColumns.read` reads. */
  read: number;
}

/**
 * Number of runs, each with 50 damaged bodies. The tier of faults tests 75,000 bodies. A million bodies take one minute.
 * QUESTLOG_SEED selects the bodies.
 */
const RUNS = { million: 20_000, long: 1_500, mutants: 30 }[process.env['QUESTLOG_TEST_RUNS'] ?? ''] ?? 120;
const SEED = process.env['QUESTLOG_SEED'];
const DAMAGED_EACH = 50;
/**
 * Interval of the requests that are compared with avsc and `JSON.stringify`. Every request that `EventColumns.read` reads is
 * compared with the same request after `EventColumns.fill`.
 */
const STORED = 4;
/** Maximum bytes of a body. `scanCorpus.test.ts` tests longer bodies. */
const LONG_BYTES = 20_000;

const WHOLE = {
  sessionId: `"${SESSION}"`,
  buildId: `"${KEY}"`,
  eventType: '"checkpoint é"',
  occurredAt: '"2024-02-29T09:10:19.090Z"',
  payload: '{"a":[1,"}"]}',
  sequence: '1029',
};

test.each([
  textOf(WHOLE),
  textOf({ sessionId: WHOLE.sessionId, eventType: '""' }),
  ` [ ${textOf(WHOLE).replaceAll(/([{,])("\w+"):/g, ' $1\n$2\t:\r')} , ${around('eventType', '"x"')}\t] `,
  ...[
    ...['1970-01-01T00:00:00Z', '2254-12-31T23:59:59.999Z', '2026-11-10T19:20:30Z', '2026-12-31T23:59:60Z'],
    ...['2026-11-21T24:00:00Z', '2026-11-21t12:00:00,120Z', '2026-11-21T12:00:00.123456789-01:30'],
  ].map((time) => around('occurredAt', `"${time}"`)),
  `{"é":{"a":[1]},"eventType":"x","sessionId":"${SESSION}","buildId":null,"payload":null,"occurredAt":null,"sequence":null}`,
  ...['1', '9', '10', '999999999999999'].map((sequence) => around('sequence', sequence)),
  `[${`${textOf(WHOLE)},`.repeat(199)}${textOf(WHOLE)}]`,
  `[${[30, 10, 50, 40].map((second) => around('occurredAt', `"2026-11-10T14:20:${second}Z"`))}]`,
])('`read` reads a typical request: body %#', (text) => {
  const seen = { inOrder: 0, wrong: 0, read: 0 };
  expectAgreement(Buffer.from(text), new Dice(1), seen);
  expect(seen).toEqual({ inOrder: columns.count, wrong: 0, read: 1 });
  const words = SESSION.replaceAll('-', '')
    .match(/.{8}/g)
    ?.map((digits) => Number.parseInt(digits, 16));
  const fresh = new EventColumns();
  const { elements } = scanRequest(Buffer.from(text), 'A');
  fresh.fill(readElements(Buffer.from(text), elements, 'A').drafts, elements);
  expect([...fresh.sessionWords.subarray(0, 4)]).toEqual(words);
  expect([...fresh.sessionWords.subarray(4 * (fresh.count - 1), 4 * fresh.count)]).toEqual(words);
  expect([fresh.sessionIdOf(0), fresh.typeOf(0)]).toEqual([SESSION, elements[0]?.eventType]);
  fresh.read(Buffer.from(text), 'A');
  expect([...fresh.sessionWords.subarray(0, 4)]).toEqual(words);
  expect([fresh.sessionIdOf(0), fresh.typeOf(0)]).toEqual([SESSION, elements[0]?.eventType]);
  const times = [...Array(fresh.count).keys()].flatMap((event) =>
    Number.isNaN(fresh.seconds[event]) ? [] : [Number(fresh.timeOf(event))],
  );
  expect([fresh.earliest, fresh.latest]).toEqual([Math.min(...times), Math.max(...times)]);
  expect(fresh.buildIdOf(0)).toBe(/"buildId"\s*:\s*"/.test(text) ? KEY : undefined);
});

test('`read` reads a batch up to its limit, and an event of revision A only with its session', () => {
  const isRead = (text: string, revision: Revision) => columns.read(Buffer.from(text), revision);
  const alone = '{"eventType":"x"}';
  expect([isRead(alone, 'A'), isRead(alone, 'B')]).toEqual([false, true]);
  const seen = { inOrder: 0, wrong: 0, read: 0 };
  for (let seed = 0; seed < 9; seed++) expectAgreement(Buffer.from(alone), new Dice(seed), seen);
  expect(Math.min(seen.wrong, seen.read)).toBeGreaterThan(1);
  const batch = (events: number) => `[${`${textOf(WHOLE)},`.repeat(events - 1)}${textOf(WHOLE)}]`;
  for (const [revision, cap] of Object.entries(BATCH_CAP)) {
    expect(isRead(batch(cap + 1), revision as Revision)).toBe(false);
    expect(isRead(batch(cap), revision as Revision)).toBe(true);
    const lastAt = Buffer.from(batch(cap)).lastIndexOf(SESSION);
    expect([columns.count, columns.sessionAt[cap - 1]]).toEqual([cap, lastAt]);
  }
});

test.each([
  ...['2026-00-21T12:00:00Z', '2026-13-21T12:00:00Z', '2026-11-00T12:00:00Z', '2025-02-29T12:00:00Z'],
  ...['2026-11-21T12:00:00', '2026-11-21T12:00Z', '2026-11-21T23:60:00Z', '2026-11-21T12:00:00.12xZ'],
  ...['2026-11-21T12:00:00+01:00Z', '2026-11-21T12:00:00Zx', '2026-11-21T12:00:00+25:00'],
  ...['1899-12-31T23:59:59Z', '1969-12-31T23:59:59.999Z', '2255-01-01T00:00:00Z', '2300-01-01T00:00:00Z'],
])('`read` does not read the time %s', (time) => {
  const seen = { inOrder: 0, wrong: 0, read: 0 };
  expectAgreement(Buffer.from(around('occurredAt', `"${time}"`)), new Dice(1), seen);
  expect(seen.read).toBe(0);
});

test('`read` and `fill` give the same result after any byte is changed, removed, or repeated', () => {
  const seen = { inOrder: 0, wrong: 0, read: 0 };
  const dice = new Dice(1);
  const whole = Buffer.from(`[${textOf(WHOLE)},${around('payload', '{}')}]`);
  for (let at = 0; at < whole.length; at++) {
    const [before, behind] = [whole.subarray(0, at), whole.subarray(at + 1)];
    for (const byte of Buffer.from('"\\{}],-./:9Ag \x1f')) {
      expectAgreement(Buffer.concat([before, Buffer.of(byte), behind]), dice, seen);
    }
    expectAgreement(Buffer.concat([before, behind]), dice, seen);
    expectAgreement(Buffer.concat([whole.subarray(0, at + 1), whole.subarray(at)]), dice, seen);
    expectAgreement(before, dice, seen);
  }
  expect(Math.min(seen.inOrder, seen.wrong, seen.read)).toBeGreaterThan(whole.length);
});

test('`read` and `fill` give the same result for damaged bodies', {
  timeout: 60_000 + RUNS * 60,
}, () => {
  const seen = { inOrder: 0, wrong: 0, read: 0 };
  fc.assert(
    fc.property(damageable, fc.nat(), (bytes, seed) => {
      const dice = new Dice(seed);
      expectAgreement(bytes, dice, seen);
      for (let i = 0; i < DAMAGED_EACH; i++) expectAgreement(damaged(bytes, dice), dice, seen);
    }),
    { numRuns: RUNS, ...(SEED !== undefined && { seed: Number(SEED) }) },
  );
  expect(Math.min(seen.inOrder, seen.wrong, seen.read)).toBeGreaterThan(4 * RUNS);
});

test('`read` and `fill` give the same result for each document of the corpus in each field', () => {
  const seen = { inOrder: 0, wrong: 0, read: 0 };
  const dice = new Dice(1);
  for (const { bytes } of [...validJson, ...invalidJson]) {
    if (bytes.length > LONG_BYTES) continue;
    const text = bytes.toString('latin1');
    const bodies = [text, `[${text}]`, ...Object.keys(members).map((name) => around(name, text))];
    for (const one of bodies) expectAgreement(Buffer.from(one, 'latin1'), dice, seen);
    expectAgreement(Buffer.from(around('payload', `{"v":${text}}`), 'latin1'), dice, seen);
  }
  expect(seen.inOrder).toBeGreaterThan(validJson.length);
});

test('checks an element with the schema from the first byte above the limit', () => {
  const seen = { inOrder: 0, wrong: 0, read: 0 };
  const short = around('payload', '{"a":""}');
  for (const more of [0, 1]) {
    const filling = 'a'.repeat(256 * 1024 - short.length + more);
    expectAgreement(Buffer.from(short.replace('""', `"${filling}"`)), new Dice(1), seen);
  }
  expect(seen).toEqual({ inOrder: 1, wrong: 1, read: 1 });
});

test('a payload has at most 64 levels', () => {
  const seen = { inOrder: 0, wrong: 0, read: 0 };
  for (const levels of [64, 65]) {
    expectAgreement(Buffer.from(around('payload', deep(levels))), new Dice(1), seen);
  }
  expect(seen).toEqual({ inOrder: 1, wrong: 1, read: 1 });
});

test.each([
  [around('other', deep(64)), 1],
  [around('other', deep(65)), 0],
  [around('\\u0070ayload', '{"a":1}'), 0],
])('`read` reads unknown fields, but no deep values and no names with escapes: %#', (text, read) => {
  const seen = { inOrder: 0, wrong: 0, read: 0 };
  expectAgreement(Buffer.from(text), new Dice(1), seen);
  expect(seen.read).toBe(read);
});

function around(name: string, text: string): string {
  return textOf({ sessionId: `"${SESSION}"`, eventType: '"x"', [name]: text });
}

function textOf(fields: Readonly<Record<string, string>>): string {
  return `{${Object.entries(fields)
    .map(([name, value]) => `"${name}":${value}`)
    .join(',')}}`;
}

function expectAgreement(bytes: Buffer, dice: Dice, seen: Seen): void {
  // The scanner receives only valid UTF-8, because other bodies are rejected earlier.
  if (!isUtf8(bytes)) return;
  const scanned = scanBody(bytes, { maxElements: 500 });
  const revision = dice.one(['A', 'B'] as const);
  const isRead = columns.read(bytes, revision);
  if (!scanned.ok) {
    if (isRead) fail('what is no JSON', bytes, revision);
    return;
  }
  scanned.elements.forEach((one, index) => {
    const isGood = problemsOf(one, revision, index).length === 0;
    seen[isGood ? 'inOrder' : 'wrong'] += 1;
  });
  const elements = readElements(bytes, scanned.elements, revision);
  expectSame(elements, readTheLongWay(bytes, scanned.elements, revision), bytes);
  const { drafts, problems } = elements;
  if (isRead && (problems.length > 0 || drafts.length !== columns.count))
    fail('a request that was read', bytes, revision);
  if (isRead) expectSame(columns.unknownFields(), scanned.unknown, bytes);
  const isCompared = dice.below(STORED) === 0;
  if (scanned.elements.length === 0 || (!isRead && !isCompared)) return;
  const request = aRequest(bytes, scanned.elements.length, elements, revision, dice);
  filled.fill(drafts, scanned.elements);
  const stored = storedOf(filled, request);
  if (isRead) expectSame(storedOf(columns, request), stored, bytes);
  if (isCompared) expectSame(stored, storedTheLongWay(request), bytes);
  if (isRead) seen.read += 1;
}

const columns = new EventColumns();
const filled = new EventColumns();
