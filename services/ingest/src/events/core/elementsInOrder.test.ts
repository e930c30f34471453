/**
 * Compares the fast paths with the slow paths for damaged bodies: valid elements with the result of the schema, records with the
 * records of avsc, and responses with `JSON.stringify`.
 */
import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { timestampProblem } from '@questlog/runtime/http/core/fieldProblems';
import { invalidJson } from '@questlog/schemas/fixtures/invalidJson';
import { validJson } from '@questlog/schemas/fixtures/validJson';
import { BATCH_CAP } from '@questlog/schemas/http/event';
import { type ElementProblem, problemOf } from '@questlog/schemas/http/problem';
import { formatMicros, parseOccurredAt } from '@questlog/schemas/isoTime';
import { frame, parseSchema } from '@questlog/schemas/topics/contract';
import { type EventsAccepted, eventsAccepted, type Revision } from '@questlog/schemas/topics/eventsAccepted';
import { canonicalUuid, eventId, millisOf, UUID_LENGTH } from '@questlog/schemas/uuid';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Dice, damageable, damaged, deep, KEY, members, SESSION } from '../damagedBodies.testing.ts';
import { type AcceptInput, type AssignedDraft, accept, keyedTails, randomBytesFor } from './accept.ts';
import { type AnsweredEvent, eventArray, eventObject, lenientArray } from './answer.ts';
import { type Draft, type Elements, isValid, problemsOf, readElements, Uuids } from './envelope.ts';
import { answerOf, recordOf, writeIds } from './ordinaryBytes.ts';
import { ABSENT, OrdinaryEvents } from './ordinaryEvents.ts';
import { RecordParts } from './recordParts.ts';
import { scanBody } from './scanBody.ts';
import type { ScannedElement } from './scanElement.ts';

interface Seen {
  inOrder: number;
  wrong: number;
  /** Number of requests that take the fast path. */
  ordinary: number;
}

/**
 * Number of runs, each with 50 damaged bodies. The tier of faults tests 75,000 bodies. A million bodies take one minute.
 * QUESTLOG_SEED selects the bodies.
 */
const RUNS = { million: 20_000, long: 1_500, mutants: 30 }[process.env['QUESTLOG_TEST_RUNS'] ?? ''] ?? 120;
const SEED = process.env['QUESTLOG_SEED'];
const DAMAGED_EACH = 50;
/**
 * Interval of the requests that are compared with avsc and `JSON.stringify`. Every ordinary request is compared with the slow
 * path.
 */
const STORED = 4;
/** Maximum bytes of a body. `scanCorpus.test.ts` tests longer bodies. */
const LONG_BYTES = 20_000;

const NOW = 1_795_262_987_142;

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
  ...['1970-01-01T00:00:00Z', '2254-12-31T23:59:59.999Z', '2026-11-10T19:20:30Z'].map((time) =>
    around('occurredAt', `"${time}"`),
  ),
  ...['1', '9', '10', '999999999999999'].map((sequence) => around('sequence', sequence)),
  `[${`${textOf(WHOLE)},`.repeat(199)}${textOf(WHOLE)}]`,
  `[${[30, 10, 50, 40].map((second) => around('occurredAt', `"2026-11-10T14:20:${second}Z"`))}]`,
])('a typical request takes the fast path: body %#', (text) => {
  const seen = { inOrder: 0, wrong: 0, ordinary: 0 };
  expectAgreement(Buffer.from(text), new Dice(1), seen);
  expect(seen).toEqual({ inOrder: ordinary.count, wrong: 0, ordinary: 1 });
  const words = SESSION.replaceAll('-', '')
    .match(/.{8}/g)
    ?.map((digits) => Number.parseInt(digits, 16));
  const fresh = new OrdinaryEvents();
  fresh.read(Buffer.from(text), 'A');
  expect([...fresh.sessionWords.subarray(0, 4)]).toEqual(words);
  const times = [...fresh.micros.subarray(0, fresh.count)].filter(
    (_, event) => fresh.timeAt[event] !== ABSENT,
  );
  expect([fresh.earliest, fresh.latest]).toEqual([Math.min(...times), Math.max(...times)]);
  expect(fresh.buildIdOf(Buffer.from(text), 0)).toBe(text.includes('buildId') ? KEY : undefined);
});

test('a batch takes the fast path up to its limit, and an event of revision A only with its session', () => {
  const isOrdinary = (text: string, revision: Revision) => ordinary.read(Buffer.from(text), revision);
  const alone = '{"eventType":"x"}';
  expect([isOrdinary(alone, 'A'), isOrdinary(alone, 'B')]).toEqual([false, true]);
  const seen = { inOrder: 0, wrong: 0, ordinary: 0 };
  for (let seed = 0; seed < 9; seed++) expectAgreement(Buffer.from(alone), new Dice(seed), seen);
  expect(Math.min(seen.wrong, seen.ordinary)).toBeGreaterThan(1);
  const batch = (events: number) => `[${`${textOf(WHOLE)},`.repeat(events - 1)}${textOf(WHOLE)}]`;
  for (const [revision, cap] of Object.entries(BATCH_CAP)) {
    expect(isOrdinary(batch(cap + 1), revision as Revision)).toBe(false);
    expect(isOrdinary(batch(cap), revision as Revision)).toBe(true);
    const lastAt = Buffer.from(batch(cap)).lastIndexOf(SESSION);
    expect([ordinary.count, ordinary.sessionAt[cap - 1]]).toEqual([cap, lastAt]);
  }
});

test.each([
  ...['2026-00-21T12:00:00Z', '2026-13-21T12:00:00Z', '2026-11-00T12:00:00Z', '2025-02-29T12:00:00Z'],
  ...['2026-11-21T24:00:00Z', '2026-11-21T23:60:00Z', '2026-12-31T23:59:60Z', '2026-11-21T12:00:00.12xZ'],
  ...['1899-12-31T23:59:59Z', '1969-12-31T23:59:59.999Z', '2255-01-01T00:00:00Z', '2300-01-01T00:00:00Z'],
])('the time %s takes the slow path', (time) => {
  const seen = { inOrder: 0, wrong: 0, ordinary: 0 };
  expectAgreement(Buffer.from(around('occurredAt', `"${time}"`)), new Dice(1), seen);
  expect(seen.ordinary).toBe(0);
});

test('the fast path gives the same result after any byte is changed, removed, or repeated', () => {
  const seen = { inOrder: 0, wrong: 0, ordinary: 0 };
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
  expect(Math.min(seen.inOrder, seen.wrong, seen.ordinary)).toBeGreaterThan(whole.length);
});

test('the fast path gives the same result as the slow path for damaged bodies', {
  timeout: 60_000 + RUNS * 60,
}, () => {
  const seen = { inOrder: 0, wrong: 0, ordinary: 0 };
  fc.assert(
    fc.property(damageable, fc.nat(), (bytes, seed) => {
      const dice = new Dice(seed);
      expectAgreement(bytes, dice, seen);
      for (let i = 0; i < DAMAGED_EACH; i++) expectAgreement(damaged(bytes, dice), dice, seen);
    }),
    { numRuns: RUNS, ...(SEED !== undefined && { seed: Number(SEED) }) },
  );
  expect(Math.min(seen.inOrder, seen.wrong, seen.ordinary)).toBeGreaterThan(4 * RUNS);
});

test('the fast path gives the same result for each document of the corpus in each field', () => {
  const seen = { inOrder: 0, wrong: 0, ordinary: 0 };
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
  const seen = { inOrder: 0, wrong: 0, ordinary: 0 };
  const short = around('payload', '{"a":""}');
  for (const more of [0, 1]) {
    const filling = 'a'.repeat(256 * 1024 - short.length + more);
    expectAgreement(Buffer.from(short.replace('""', `"${filling}"`)), new Dice(1), seen);
  }
  expect(seen).toEqual({ inOrder: 1, wrong: 1, ordinary: 1 });
});

test('a payload has at most 64 levels on both paths', () => {
  const seen = { inOrder: 0, wrong: 0, ordinary: 0 };
  for (const levels of [64, 65]) {
    expectAgreement(Buffer.from(around('payload', deep(levels))), new Dice(1), seen);
  }
  expect(seen).toEqual({ inOrder: 1, wrong: 1, ordinary: 1 });
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
  if (!scanned.ok) {
    if (ordinary.read(bytes, revision)) fail('what is no JSON', bytes, revision);
    return;
  }
  const uuids = new Uuids();
  scanned.elements.forEach((one, index) => {
    const isGood = problemsOf(one, revision, index).length === 0;
    if (isValid(one, revision, uuids) !== isGood) fail('an element', bytes, revision);
    seen[isGood ? 'inOrder' : 'wrong'] += 1;
  });
  const read = readElements(bytes, scanned.elements, revision);
  expectSame(read, readTheLongWay(bytes, scanned.elements, revision), bytes);
  const isOrdinary = ordinary.read(bytes, revision);
  if (dice.below(STORED) === 0) expectSameStored(read, revision, dice, bytes);
  if (!isOrdinary) return;
  if (scanned.unknown.length > 0) fail('an unknown field', bytes, revision);
  expectSameOrdinary(bytes, read, revision, dice);
  seen.ordinary += 1;
}

const ordinary = new OrdinaryEvents();
const SHAPES = ['lane', 'session', 'event'] as const;

/** Expects that the slow path accepts an ordinary request, with the same record and response. */
function expectSameOrdinary(
  bytes: Buffer,
  { drafts, problems }: Elements,
  revision: Revision,
  dice: Dice,
): void {
  if (problems.length > 0 || drafts.length !== ordinary.count) fail('an ordinary request', bytes, revision);
  const builds = drafts.map(({ sessionId }) => (sessionId === null ? null : dice.one([null, KEY])));
  const placed: AssignedDraft[] = drafts.map((draft, i) => ({
    ...draft,
    buildId: draft.buildId ?? builds[i] ?? null,
    lane: dice.one([0, 1, 0xabc]),
  }));
  const random = Buffer.from(Array.from({ length: randomBytesFor(drafts.length) }, () => dice.below(256)));
  const remaining = dice.below(4);
  const idempotency = dice.below(2) === 0 ? null : { key: KEY, digest: Buffer.alloc(32, dice.below(256)) };
  const shape = idempotency === null ? 'lane' : dice.one(SHAPES);
  const of = { tenantId: SESSION, projectId: KEY, revision, receivedAt: NOW, idempotency, remaining };
  const { created, appends } = accept({ ...of, drafts: placed, shape, partitions: 4, random });
  const next = new Uint16Array(drafts.length);
  const records = new RecordParts(shape, next);
  for (const { index, lane, sessionId } of placed) records.add(index, lane, sessionId);
  const lanes = placed.map(({ lane }) => lane);
  const sessions = builds.map((build) =>
    build === null ? dice.one([null, { build }]) : { build: Buffer.from(build) },
  );
  const ids = Buffer.alloc(UUID_LENGTH * drafts.length);
  const indexes = drafts.map(({ index }) => index);
  const tails = idempotency === null ? random : keyedTails(KEY, idempotency, indexes);
  const idMillis = idempotency === null ? NOW : millisOf(KEY);
  ordinary.setMissingTimes(NOW);
  const batch = { ...of, body: bytes, found: ordinary, lanes, next, sessions, ids };
  writeIds(batch, { tails, idMillis });
  const schemaId = dice.below(2 ** 31);
  const messages = new Map(
    appends.flatMap((append) => append.messages.map((one) => [one.events[0]?.id, one])),
  );
  expectSame(records.all.length, messages.size, bytes);
  for (const { first, events } of records.all) {
    const message = messages.get(created[first]?.id);
    const { appendId = '' } = message ?? {};
    const record = recordOf(batch, schemaId, { appendId, first, events });
    expectSame(record, message && eventsAccepted.framed(schemaId, message), bytes);
  }
  const reportIds: string[][] = [];
  for (const index of indexes) if (dice.below(4) === 0) reportIds[index] = [KEY, SESSION];
  const answered = created.map((event) => ({
    ...event,
    overQuota: revision === 'A' ? event.overQuota : undefined,
    reportIds: reportIds[event.index] ?? [],
  }));
  expectSame(answerOf(batch, reportIds.length === 0 ? undefined : reportIds), eventArray(answered), bytes);
}

/** Reads the elements with the schema only. */
function readTheLongWay(bytes: Buffer, scanned: readonly ScannedElement[], revision: Revision): Elements {
  const drafts: Draft[] = [];
  const problems: ElementProblem[] = [];
  scanned.forEach((one, index) => {
    const found = problemsOf(one, revision, index);
    const time = typeof one.occurredAt === 'string' ? parseOccurredAt(one.occurredAt) : undefined;
    if (time?.ok === false) found.push({ ...timestampProblem('occurredAt', time.reason), index });
    problems.push(...found);
    if (found.length > 0) return;
    const isGiven = one.payloadKind === 'object';
    drafts.push({
      index,
      sessionId: typeof one.sessionId === 'string' ? (canonicalUuid(one.sessionId) ?? null) : null,
      buildId: typeof one.buildId === 'string' ? (canonicalUuid(one.buildId) ?? null) : null,
      eventType: String(one.eventType),
      occurredAt: time?.ok === true ? time.micros : null,
      payload: isGiven ? bytes.subarray(one.payloadStart, one.payloadEnd) : Buffer.from('{}'),
      sequence: typeof one.sequence === 'number' ? one.sequence : null,
    });
  });
  return { drafts, problems };
}

const registered = parseSchema<EventsAccepted>(eventsAccepted.schema);

/** Stores the drafts with a random key, record layout, and sample rate, and expects the records of avsc. */
function expectSameStored(
  { drafts, problems }: Elements,
  revision: Revision,
  dice: Dice,
  bytes: Buffer,
): void {
  const placed: AssignedDraft[] = drafts.map((draft) => ({
    ...draft,
    lane: dice.one([0, 1, 0xabc]),
    ...(dice.below(4) === 0 && { sampleRate: 1 / (1 + dice.below(9)) }),
  }));
  const input: AcceptInput = {
    ...{ tenantId: SESSION, projectId: KEY, revision, receivedAt: NOW, drafts: placed },
    ...{ remaining: dice.below(4), shape: dice.one(SHAPES), partitions: 4 },
    idempotency: dice.below(2) === 0 ? null : { key: KEY, digest: Buffer.alloc(32, dice.below(256)) },
    random: Buffer.from(Array.from({ length: randomBytesFor(drafts.length) }, () => dice.below(256))),
  };
  const { created, appends } = accept(input);
  const ids = placed.map((draft, position) => idTheLongWay(input, draft, position));
  expectSame(
    created.map(({ id }) => id),
    ids,
    bytes,
  );
  for (const message of appends.flatMap(({ messages }) => messages)) {
    const schemaId = dice.below(2 ** 31);
    expectSame(
      eventsAccepted.framed(schemaId, message),
      frame(schemaId, registered.toBuffer(message)),
      bytes,
    );
  }
  const answered = created.map(
    (event): AnsweredEvent => ({
      ...event,
      overQuota: revision === 'A' ? event.overQuota : undefined,
      reportIds: dice.one([[], [], [SESSION], Array<string>(40).fill(SESSION)]),
      ...(dice.below(9) === 0 && { link: { state: 'linked', source: 'é"' } }),
    }),
  );
  expectSame(eventArray(answered), answerTheLongWay(answered), bytes);
  for (const one of answered.slice(0, 1)) expectSame(eventObject(one), answerTheLongWay(one), bytes);
  const mixed = [...answered, ...problems.map((one) => [one])];
  expectSame(lenientArray(mixed, 'r'), answerTheLongWay(mixed), bytes);
}

function idTheLongWay(
  { idempotency, projectId, receivedAt, random }: AcceptInput,
  draft: AssignedDraft,
  at: number,
) {
  if (idempotency === null) return eventId(receivedAt, draft.lane, random.subarray(at * 8));
  const { key, digest } = idempotency;
  const tail = createHash('sha256').update(`${projectId}/${key}/${draft.index}/`).update(digest).digest();
  return eventId(millisOf(key), draft.lane, tail);
}

type Answered = AnsweredEvent | readonly ElementProblem[];

/** Encodes the response with a placeholder, and then replaces the placeholder with the payload's bytes. */
function answerTheLongWay(answered: Answered | readonly Answered[]): Buffer {
  const payloads: Buffer[] = [];
  const shown = (one: Answered): unknown => {
    if (!('id' in one)) return one[0] && problemOf(one[0].code, one[0].detail, 'r', one);
    const { id, sessionId, buildId, eventType, occurredAt, sequence, reportIds, overQuota, link } = one;
    const payload = `payload ${payloads.push(one.payload) - 1}\u0001`;
    const counted = sequence === null ? {} : { sequence };
    const time = formatMicros(occurredAt);
    return {
      id,
      sessionId,
      buildId,
      eventType,
      occurredAt: time,
      ...counted,
      payload,
      reportIds,
      overQuota,
      link,
    };
  };
  const whole = 'id' in answered ? shown(answered) : (answered as readonly Answered[]).map(shown);
  const text = Buffer.from(JSON.stringify(whole)).toString('latin1');
  const put = text.replace(/"payload (\d+)\\u0001"/g, (_, i) => payloads[i]?.toString('latin1') ?? '');
  return Buffer.from(put, 'latin1');
}

function expectSame(one: unknown, other: unknown, bytes: Buffer): void {
  if (Buffer.isBuffer(one) && Buffer.isBuffer(other) ? one.equals(other) : isDeepStrictEqual(one, other))
    return;
  expect(one, bytes.toString()).toEqual(other);
  fail('a text or record', bytes);
}

function fail(what: string, bytes: Buffer, revision?: Revision): never {
  throw new Error(
    `${what} is not as the long way has it${revision ? ` in revision ${revision}` : ''}: ${bytes}`,
  );
}
