/**
 * The short ways beside the long ones, over damaged bodies: elements that the schema is not asked about beside what it says of
 * them, records beside what avsc writes by the registered schema, answers beside `JSON.stringify`.
 */
import { isUtf8 } from 'node:buffer';
import { isDeepStrictEqual } from 'node:util';
import { invalidJson } from '@questlog/schemas/fixtures/invalidJson';
import { validJson } from '@questlog/schemas/fixtures/validJson';
import { type ElementProblem, problemOf } from '@questlog/schemas/http/problem';
import { frame, parseSchema } from '@questlog/schemas/topics/contract';
import { type EventsAccepted, eventsAccepted, type Revision } from '@questlog/schemas/topics/eventsAccepted';
import { canonicalUuid, eventId, millisOf } from '@questlog/schemas/uuid';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { timestampProblem } from '../../core/fieldProblems.ts';
import { formatMicros, parseOccurredAt } from '../../core/occurredAt.ts';
import { type AcceptInput, accept, keyedTail, type PlacedDraft, randomBytesFor } from './accept.ts';
import { type AnsweredEvent, eventArray, eventObject, lenientArray } from './answer.ts';
import { type Draft, type Elements, isInOrder, problemsOf, readElements, Uuids } from './envelope.ts';
import { answerOf, recordOf } from './ordinaryBytes.ts';
import { OrdinaryEvents } from './ordinaryEvents.ts';
import { scanBody } from './scanBody.ts';
import type { ScannedElement } from './scanElement.ts';

interface Seen {
  inOrder: number;
  wrong: number;
  /** Requests that take the short way. */
  ordinary: number;
}

/** Of 50 bodies each: a million in the tier of faults. */
const RUNS = { long: 20_000, mutants: 60 }[process.env['QUESTLOG_TEST_RUNS'] ?? ''] ?? 120;
const DAMAGED_EACH = 50;

const SESSION = '7846b5f4-39dd-4381-b200-dbc9f59749ad';
const KEY = '01a1fe02-7454-7000-a110-3027adf24232';
const NOW = 1_795_262_987_142;

const PLAIN_TIMES = [
  '2026-11-21T12:00:00Z',
  '2024-02-29T23:59:59.999Z',
  '1970-01-01T00:00:00.000Z',
  '2254-12-31T23:59:59.120Z',
];

/** Characters of each length in UTF-8, times at each precision and bound, numbers where a varint takes another byte. */
const GOOD = {
  sessionId: [SESSION, SESSION, SESSION.toUpperCase()],
  eventType: ['checkpoint', '', 'é🎮', '\u07ff\u0800\uffff\u{10000}\u{10ffff}', 'a "quoted"\\\u0000 one'],
  buildId: [KEY, SESSION],
  occurredAt: [
    ...[
      '2026-11-21T12:00:00Z',
      '2024-02-29T23:59:59.999Z',
      '1970-01-01T00:00:00.000Z',
      '2254-12-31T23:59:59Z',
    ],
    ...['1900-01-01T00:00:00Z', '2299-12-31T23:59:59.999999Z', '1970-01-01', '2026-11-21T12:00Z'],
    ...['1969-12-31T23:59:59.999999Z', '1970-01-01T00:00:00.0000001Z', '2016-12-31T23:59:60Z'],
    // Around what a double holds.
    ...['2255-06-05T23:47:34.740991Z', '2255-06-05T23:47:34.740992Z', '2255-06-05T23:47:34.740993Z'],
    ...[1, 2, 3, 4, 5, 6, 7, 9].map((digits) => `2026-11-21T12:00:00.${'120030405'.slice(0, digits)}+01:00`),
  ],
  sequence: [1, 63, 64, 2 ** 27, 2 ** 28, 2 ** 32, 2 ** 52 - 1, 2 ** 52, Number.MAX_SAFE_INTEGER],
};
const BAD = {
  sessionId: [SESSION.slice(1), `${SESSION}0`, SESSION.replace('-', '_'), '', 'x'],
  eventType: [null],
  buildId: [SESSION.slice(1), `${SESSION}\n`],
  occurredAt: [
    '1899-12-31T23:59:59.999999Z',
    '2300-01-01',
    '2026-02-29',
    '2026-11-21T12:00:00,',
    'yesterday',
  ],
  sequence: [0, -1, 5.5, 2 ** 53],
};
const deep = (levels: number): string => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;
const SHORT = validJson
  .filter(({ bytes }) => bytes.length < 300)
  .map(({ bytes }) => bytes.toString('latin1'));

const written = (values: readonly unknown[]) =>
  fc.constantFrom(...values.map((value) => Buffer.from(JSON.stringify(value)).toString('latin1')));
const document = fc.constantFrom(...SHORT);
const other = fc.oneof(
  document,
  fc.constantFrom(
    'null',
    '{}',
    '[]',
    '7',
    '5.0',
    '5e1',
    '1e400',
    '-0',
    '"\\ud800"',
    '"\\u0041\\ud83c\\udfae"',
  ),
);
const mostly = (good: fc.Arbitrary<string>, bad: fc.Arbitrary<string>): fc.Arbitrary<string> =>
  fc.oneof({ weight: 25, arbitrary: good }, { weight: 1, arbitrary: bad }, { weight: 1, arbitrary: other });
const members = {
  sessionId: mostly(written(GOOD.sessionId), written(BAD.sessionId)),
  eventType: mostly(written(GOOD.eventType), written(BAD.eventType)),
  buildId: mostly(written(GOOD.buildId), written(BAD.buildId)),
  occurredAt: mostly(written(GOOD.occurredAt), written(BAD.occurredAt)),
  payload: mostly(
    fc.oneof(
      document.map((text) => `{"v":${text}}`),
      fc.constant(deep(64)),
    ),
    fc.constant(deep(65)),
  ),
  sequence: mostly(written(GOOD.sequence), written(BAD.sequence)),
};
const MORE = ['"sessionId":null', '"eventType":"again"', '"other":1', '"\\u0070ayload":{}', '"sequence":2'];

const element = fc
  .tuple(
    ...Object.entries(members).map(([name, value]) =>
      fc.option(
        value.map((text) => `"${name}":${text}`),
        { freq: name === 'sessionId' || name === 'eventType' ? 20 : 2 },
      ),
    ),
    fc.oneof(
      { weight: 20, arbitrary: fc.constant(null) },
      { weight: 1, arbitrary: fc.constantFrom(...MORE) },
    ),
  )
  .map((some) => `{${some.filter((one) => one !== null).join(',')}}`);
/** Such as games send. */
const plain = fc
  .tuple(
    fc.constantFrom(SESSION, KEY).map((id) => `"sessionId":"${id}"`),
    written(['checkpoint', '', 'é🎮']).map((type) => `"eventType":${type}`),
    fc.option(fc.constantFrom(...PLAIN_TIMES).map((time) => `"occurredAt":"${time}"`)),
    fc.option(members.payload.map((payload) => `"payload":${payload}`)),
    fc.option(
      fc.constantFrom(1, 63, 64, 2 ** 32).map((sequence) => `"sequence":${sequence}`),
      { freq: 1 },
    ),
    fc.option(fc.constant(`"buildId":"${KEY}"`), { freq: 1 }),
  )
  .map((some) => `{${some.filter((one) => one !== null).join(',')}}`);
const bodyOf = (one: fc.Arbitrary<string>) =>
  fc
    .array(fc.oneof({ weight: 30, arbitrary: one }, { weight: 1, arbitrary: other }), {
      minLength: 1,
      maxLength: 3,
    })
    .map((some) => Buffer.from(some.length === 1 ? some.join() : `[${some.join(' , ')}]`, 'latin1'));
const body = fc.oneof(bodyOf(element), bodyOf(plain));

test('what is damaged is judged, recorded and answered as the long way would', {
  timeout: 60_000 + RUNS * 60,
}, () => {
  const seen = { inOrder: 0, wrong: 0, ordinary: 0 };
  fc.assert(
    fc.property(body, fc.nat(), (bytes, seed) => {
      const dice = new Dice(seed);
      expectAgreement(bytes, dice, seen);
      for (let i = 0; i < DAMAGED_EACH; i++) expectAgreement(damaged(bytes, dice), dice, seen);
    }),
    { numRuns: RUNS },
  );
  expect(Math.min(seen.inOrder, seen.wrong, seen.ordinary)).toBeGreaterThan(4 * RUNS);
});

test('so is each document of the corpus, valid or not, in the place of each field', () => {
  const seen = { inOrder: 0, wrong: 0, ordinary: 0 };
  const dice = new Dice(1);
  for (const { bytes } of [...validJson, ...invalidJson]) {
    const text = bytes.toString('latin1');
    const bodies = [text, `[${text}]`, ...Object.keys(members).map((name) => around(name, text))];
    for (const one of bodies) expectAgreement(Buffer.from(one, 'latin1'), dice, seen);
    expectAgreement(Buffer.from(around('payload', `{"v":${text}}`), 'latin1'), dice, seen);
  }
  expect(seen.inOrder).toBeGreaterThan(validJson.length);
});

test('an element is asked of the schema from the first byte on that is too many', () => {
  const seen = { inOrder: 0, wrong: 0, ordinary: 0 };
  const short = around('payload', '{"a":""}');
  for (const more of [0, 1]) {
    const filling = 'a'.repeat(256 * 1024 - short.length + more);
    expectAgreement(Buffer.from(short.replace('""', `"${filling}"`)), new Dice(1), seen);
  }
  expect(seen).toEqual({ inOrder: 1, wrong: 1, ordinary: 1 });
});

function around(name: string, text: string): string {
  const rest = { sessionId: `"${SESSION}"`, eventType: '"x"', [name]: text };
  return `{${Object.entries(rest)
    .map(([field, value]) => `"${field}":${value}`)
    .join(',')}}`;
}

/** Some hundred times as fast as drawing each damage by fast-check, which draws the seed. */
class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** Mulberry32. */
  below(sides: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % sides;
  }

  one<T>(of: readonly T[]): T {
    return of[this.below(of.length)] as T;
  }
}

const BYTES = [...Buffer.from('"\\{}[],:-+.0169eEnulAaZz \n\xff', 'latin1')];
const MEMBERS = [
  ...MORE,
  '"sequence":0',
  '"payload":[]',
  '"payload":null',
  '"buildId":7',
  '"eventType":"\\udfff"',
];

/** One or two bytes changed, some put in or cut out, or a member put in; most stay JSON. */
function damaged(bytes: Buffer, dice: Dice): Buffer {
  const at = dice.below(bytes.length);
  const kind = dice.below(8);
  const [before, behind] = [bytes.subarray(0, at), bytes.subarray(at)];
  if (kind === 0) return Buffer.concat([before, Buffer.of(dice.one(BYTES)), behind]);
  if (kind === 1) return Buffer.concat([before, behind.subarray(1 + dice.below(4))]);
  if (kind <= 3) {
    const open = behind.indexOf(0x7b) + 1;
    const member = Buffer.from(`${dice.one(MEMBERS)},`);
    return Buffer.concat([before, behind.subarray(0, open), member, behind.subarray(open)]);
  }
  const copy = Buffer.from(bytes);
  copy[at] = kind === 4 ? dice.below(256) : dice.one(BYTES);
  // A letter or digit for another leaves JSON whole, and may break a UUID or a time.
  if (kind >= 6) copy[at] = isWord(bytes[at]) ? dice.one([0x30, 0x39, 0x61, 0x46, 0x67]) : (bytes[at] ?? 0);
  return copy;
}

function isWord(byte = 0): boolean {
  return /[0-9a-z]/i.test(String.fromCharCode(byte));
}

function expectAgreement(bytes: Buffer, dice: Dice, seen: Seen): void {
  // Whoever sends other bytes was refused before.
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
    if (isInOrder(one, revision, uuids) !== isGood) fail('an element', bytes, revision);
    seen[isGood ? 'inOrder' : 'wrong'] += 1;
  });
  const read = readElements(bytes, scanned.elements, revision);
  expectSame(read, readTheLongWay(bytes, scanned.elements, revision), bytes);
  if (!ordinary.read(bytes, revision)) return;
  if (scanned.unknown.length > 0) fail('an unknown field', bytes, revision);
  expectSameOrdinary(bytes, read, revision, dice);
  seen.ordinary += 1;
  expectSameStored(read, revision, dice, bytes);
}

const ordinary = new OrdinaryEvents();

/** What the short way takes as ordinary, the long one finds in order, records and answers with the same bytes. */
function expectSameOrdinary(
  bytes: Buffer,
  { drafts, problems }: Elements,
  revision: Revision,
  dice: Dice,
): void {
  if (problems.length > 0 || drafts.length !== ordinary.count) fail('an ordinary request', bytes, revision);
  const builds = drafts.map(() => dice.one([null, KEY]));
  const placed: PlacedDraft[] = drafts.map((draft, i) => ({
    ...draft,
    buildId: draft.buildId ?? builds[i] ?? null,
    lane: dice.below(3),
  }));
  const random = Buffer.from(Array.from({ length: randomBytesFor(drafts.length) }, () => dice.below(256)));
  const remaining = dice.below(4);
  const of = { tenantId: SESSION, projectId: KEY, revision, receivedAt: NOW, random, remaining };
  const { created, appends } = accept({
    ...of,
    drafts: placed,
    isSplit: false,
    idempotency: null,
    partitions: 4,
  });
  const lanes = placed.map(({ lane }) => lane);
  const sessionBuilds = builds.map((build) => (build === null ? null : Buffer.from(build)));
  const batch = { ...of, body: bytes, found: ordinary, lanes, sessionBuilds };
  const schemaId = dice.below(2 ** 31);
  const byLane = Map.groupBy(created, ({ index }) => lanes[index] ?? 0);
  for (const message of appends.flatMap(({ messages }) => messages)) {
    const [lane = 0] = [...byLane].find(([, [first]]) => first?.id === message.events[0]?.id) ?? [];
    const { appendId, events } = message;
    const record = recordOf(batch, schemaId, { appendId, lane, count: events.length });
    expectSame(record, eventsAccepted.framed(schemaId, message), bytes);
  }
  const answered = created.map((event) => ({
    ...event,
    overQuota: revision === 'A' ? event.overQuota : undefined,
    reportIds: [],
  }));
  expectSame(answerOf(batch), eventArray(answered), bytes);
}

/** By the schema alone. */
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

/** Keyed, lenient and sampled as the dice say. */
function expectSameStored(
  { drafts, problems }: Elements,
  revision: Revision,
  dice: Dice,
  bytes: Buffer,
): void {
  const placed: PlacedDraft[] = drafts.map((draft) => ({
    ...draft,
    lane: dice.below(3),
    ...(dice.below(4) === 0 && { sampleRate: 1 / (1 + dice.below(9)) }),
  }));
  const input: AcceptInput = {
    ...{ tenantId: SESSION, projectId: KEY, revision, receivedAt: NOW, drafts: placed },
    ...{ remaining: dice.below(4), isSplit: dice.below(2) === 0, partitions: 4 },
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
  draft: PlacedDraft,
  at: number,
) {
  if (idempotency === null) return eventId(receivedAt, draft.lane, random.subarray(at * 8));
  const tail = keyedTail(projectId, idempotency.key, idempotency.digest, draft.index);
  return eventId(millisOf(idempotency.key), draft.lane, tail);
}

type Answered = AnsweredEvent | readonly ElementProblem[];

/** What stands for a payload is put into JSON as its bytes afterwards. */
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
