/** The record as it is written by hand, beside what avsc writes of the same values: byte for byte. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { anEventsAccepted } from '../../fixtures/builders.ts';
import { frame, parseSchema } from './contract.ts';
import { type EventsAccepted, eventsAccepted } from './eventsAccepted.ts';

/** Runs are ten times as many in the tier of faults. */
const TIMES = process.env['QUESTLOG_TEST_RUNS'] === 'long' ? 10 : 1;

const [FROM, BELOW] = [BigInt(Date.UTC(1900, 0, 1)) * 1000n, BigInt(Date.UTC(2300, 0, 1)) * 1000n];
const uuid = fc.uuid();
/** Around the lengths from which on a length takes another byte, and a buffer more room. */
const length = fc.oneof(fc.nat(200), fc.constantFrom(...[0, 63, 64, 65, 8_191, 8_192, 300_000]));
const character = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
  fc.constantFrom('x', 'é', '€', '🎮'),
);
const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.tuple(character, length).map(([one, times]) => one.repeat(Math.min(times, 9_000))),
);
const micros = fc.oneof(
  fc.bigInt({ min: FROM, max: BELOW - 1n }),
  fc.constantFrom(FROM, BELOW - 1n, 0n, -1n, ...[6n, 7n, 31n, 32n, 52n, 53n].flatMap(around)),
);
const counted = fc.oneof(
  fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
  fc.constantFrom(1, 63, 64, 2 ** 27, 2 ** 28, 2 ** 31, 2 ** 52 - 1, 2 ** 52, Number.MAX_SAFE_INTEGER),
);
const event = fc.record({
  id: uuid,
  sessionId: fc.option(uuid),
  buildId: fc.option(uuid),
  eventType: text,
  occurredAt: micros,
  payload: fc.tuple(length, fc.nat(255)).map(([bytes, byte]) => Buffer.alloc(bytes, byte)),
  overQuota: fc.boolean(),
  sequence: fc.option(counted),
  sampleRate: fc.option(fc.double({ min: 0, max: 1 })),
});
const message: fc.Arbitrary<EventsAccepted> = fc.record({
  appendId: uuid,
  tenantId: uuid,
  projectId: uuid,
  receivedAt: fc.integer({ min: 0, max: Date.UTC(2099, 11, 31) }),
  revision: fc.constantFrom('A' as const, 'B' as const),
  idempotency: fc.option(
    fc.record({
      key: uuid,
      digest: fc.uint8Array({ minLength: 32, maxLength: 32 }).map((one) => Buffer.from(one)),
    }),
  ),
  events: fc.array(event, { maxLength: 5 }),
});

const registered = parseSchema<EventsAccepted>(eventsAccepted.schema);

test('a record is written byte for byte as avsc writes it', () => {
  fc.assert(
    fc.property(message, fc.nat(), (one, schemaId) => {
      const expected = frame(schemaId, registered.toBuffer(one));
      expect(eventsAccepted.framed(schemaId, one).equals(expected)).toBe(true);
    }),
    { numRuns: 300 * TIMES },
  );
});

test('an event without a sample rate is written as one of which all were kept', () => {
  fc.assert(
    fc.property(message, (one) => {
      const events = one.events.map(({ sampleRate: _, ...rest }) => rest);
      const expected = frame(1, registered.toBuffer({ ...one, events }));
      expect(eventsAccepted.framed(1, { ...one, events }).equals(expected)).toBe(true);
    }),
    { numRuns: 50 },
  );
});

/** No such type comes so far. avsc would write bytes that no reader of UTF-8 takes. */
test('a surrogate without its other half is written as the character that stands for what cannot be written', () => {
  for (const eventType of ['\ud83c', 'a\udfaeb', '\udfae\ud83c'.repeat(40)]) {
    const one = anEventsAccepted({ events: [{ eventType }] });
    const events = one.events.map((event) => ({ ...event, eventType: eventType.toWellFormed() }));
    const expected = frame(1, registered.toBuffer({ ...one, events }));
    expect(eventsAccepted.framed(1, one).equals(expected)).toBe(true);
  }
});

function around(bits: bigint): bigint[] {
  const power = 2n ** bits;
  return [power - 1n, power, power + 1n, 1n - power, -power].filter((one) => one >= FROM && one < BELOW);
}
