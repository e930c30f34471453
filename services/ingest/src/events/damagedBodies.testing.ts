/** Test support: bodies with ordinary and other events, and random damage to these bodies. */
import { validJson } from '@questlog/schemas/fixtures/validJson';
import fc from 'fast-check';

export const SESSION = '7846b5f4-39dd-4381-b200-dbc9f59749ad';
export const KEY = '01a1fe02-7454-7000-a110-3027adf24232';
const PLAIN_TIMES = [
  '2026-11-21T12:00:00Z',
  '2024-02-29T23:59:59.999Z',
  '1970-01-01T00:00:00.000Z',
  '2254-12-31T23:59:59.120Z',
];

/**
 * Valid values: characters of each UTF-8 length, times at each precision and limit, and numbers at the limits of varint lengths.
 */
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
    // Microseconds around 2^53, above which a double is not exact.
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
export const deep = (levels: number): string => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;
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
export const members = {
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
/** Typical events of games. */
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
export const damageable = fc.oneof(bodyOf(element), bodyOf(plain));

/** Random numbers for the damage. They are about a hundred times faster than fast-check, which draws only the seed. */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** Returns a random number from 0 to `sides` - 1. The algorithm is Mulberry32. */
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

/** Changes, inserts, or deletes some bytes, or inserts a member. Most results are valid JSON. */
export function damaged(bytes: Buffer, dice: Dice): Buffer {
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
  // Replacing a letter or digit keeps the JSON valid, but can break a UUID or a time.
  if (kind >= 6) copy[at] = isWord(bytes[at]) ? dice.one([0x30, 0x39, 0x61, 0x46, 0x67]) : (bytes[at] ?? 0);
  return copy;
}

function isWord(byte = 0): boolean {
  return /[0-9a-z]/i.test(String.fromCharCode(byte));
}
