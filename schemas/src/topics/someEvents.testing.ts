/** Generates messages of `questlog.events.v1` for tests. The messages contain edge cases of the encoding. */
import fc from 'fast-check';
import type { EventsAccepted } from './eventsAccepted.ts';

const [FROM, BELOW] = [BigInt(Date.UTC(1900, 0, 1)) * 1000n, BigInt(Date.UTC(2300, 0, 1)) * 1000n];
const uuid = fc.uuid();
/** Lengths, including lengths at which a varint takes one more byte or a buffer must grow. */
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
  sampleRate: fc.option(fc.double({ min: Number.MIN_VALUE, max: 1, noNaN: true })),
});

export const someEvents: fc.Arbitrary<EventsAccepted> = fc.record({
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

function around(bits: bigint): bigint[] {
  const power = 2n ** bits;
  return [power - 1n, power, power + 1n, 1n - power, -power].filter((one) => one >= FROM && one < BELOW);
}
