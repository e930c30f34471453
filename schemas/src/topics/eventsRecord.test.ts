/** Tests that the reader of positions and avsc decode the same values, or that both reject the bytes. */
import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { anEventsAccepted } from '../../fixtures/builders.ts';
import { parseSchema } from './contract.ts';
import { type AcceptedEvent, type EventsAccepted, eventsAccepted } from './eventsAccepted.ts';
import { type EventsRecord, eventsInBytes, recordOf } from './eventsRecord.ts';
import { someEvents } from './someEvents.testing.ts';

test('reads a canonical record in place with the same values as avsc', () => {
  fc.assert(
    fc.property(someEvents, (message) => {
      const bytes = eventsAccepted.type.toBuffer(message);
      const record = eventsInBytes.type.fromBuffer(bytes);
      expect(record.bytes).toBe(bytes);
      expectSame(record, eventsAccepted.type.fromBuffer(bytes));
    }),
    { numRuns: 100 },
  );
});

test('decodes other encodings of another producer like avsc', () => {
  fc.assert(
    fc.property(someEvents, fc.infiniteStream(fc.nat(9)), (message, dice) => {
      const bytes = writtenOtherwise(message, () => dice.next().value === 0);
      expectSame(eventsInBytes.type.fromBuffer(bytes), eventsAccepted.type.fromBuffer(bytes));
    }),
    { numRuns: 100 },
  );
});

test('decodes or rejects damaged bytes like avsc', () => {
  const seen = { read: 0, refused: 0 };
  fc.assert(
    fc.property(
      someEvents.filter(isSmall),
      fc.array(damage, { minLength: 100, maxLength: 100 }),
      (one, damages) => {
        const whole = eventsAccepted.type.toBuffer(one);
        for (const damaged of damages) {
          const bytes = damaged(whole);
          const expected = attempt(() => eventsAccepted.type.fromBuffer(bytes));
          const record = attempt(() => eventsInBytes.type.fromBuffer(bytes));
          seen['fault' in expected ? 'refused' : 'read']++;
          if ('fault' in expected || 'fault' in record) expect(record).toEqual(expected);
          else expectSame(record.value, expected.value);
        }
      },
    ),
    { numRuns: 100 },
  );
  expect(Math.min(seen.read, seen.refused)).toBeGreaterThan(200);
});

const [START, END] = [BigInt(Date.UTC(1900, 0, 1)) * 1000n, BigInt(Date.UTC(2300, 0, 1)) * 1000n];

test.each<[what: string, of: Partial<EventsAccepted>, event: Partial<AcceptedEvent>]>([
  ['before 1970 by the server’s clock', { receivedAt: -1 }, {}],
  ['after 2099 by the server’s clock', { receivedAt: Date.UTC(2100, 0, 1) }, {}],
  ['before 1900 by the game’s clock', {}, { occurredAt: START - 1n }],
  ['after 2299 by the game’s clock', {}, { occurredAt: END }],
  ['with sequence 0', {}, { sequence: 0 }],
  ['with sequence 2^53', {}, { sequence: 2 ** 53 }],
  ['with sample rate 0', {}, { sampleRate: 0 }],
  ['with a sample rate above 1', {}, { sampleRate: 1.5 }],
  ['with sample rate NaN', {}, { sampleRate: Number.NaN }],
  ['with an id that is not a UUID', {}, { id: '00000000-0000-7000-8000-00000000000g' }],
  ['with a tenant id that is too short', { tenantId: '00000000' }, {}],
])('an event %s does not decode', (_, of, event) => {
  const bytes = eventsAccepted.type.toBuffer(anEventsAccepted({ ...of, events: [event] }));
  expect(() => eventsInBytes.type.fromBuffer(bytes)).toThrow(RangeError);
});

test('decodes a record of the first released schema', () => {
  const path = new URL('../../released/questlog.events.v1-value/1.avsc', import.meta.url);
  const first = parseSchema<EventsAccepted>(readFileSync(path, 'utf8'));
  fc.assert(
    fc.property(someEvents, (message) => {
      const events = message.events.map((event) => ({ ...event, sequence: null, sampleRate: null }));
      const bytes = first.toBuffer({ ...message, events });
      expectSame(eventsInBytes.type.fromBuffer(bytes, eventsInBytes.type.createResolver(first)), {
        ...message,
        events,
      });
    }),
    { numRuns: 20 },
  );
});

test('returns the same values for each event as its message', () => {
  fc.assert(
    fc.property(someEvents, (message) => expectSame(recordOf(message), message)),
    { numRuns: 20 },
  );
});

function expectSame(record: EventsRecord, message: EventsAccepted): void {
  const { events: read, ...head } = record.message();
  const { events, ...expectedHead } = message;
  expect(head).toEqual(expectedHead);
  expect([record.count, read.length]).toEqual([events.length, events.length]);
  for (const [i, expected] of events.entries()) {
    const event = read[i];
    // Compares the events separately, because `toEqual` is slow for the bytes of a payload.
    if (!isDeepStrictEqual(event, expected)) expect(event).toEqual(expected);
    expect(record.roundedMicros(i)).toBe(Number(expected.occurredAt));
  }
}

function isSmall({ events }: EventsAccepted): boolean {
  return events.every(({ eventType, payload }) => eventType.length + payload.length < 200);
}

function attempt<T>(work: () => T): { value: T } | { fault: string } {
  try {
    return { value: work() };
  } catch (error) {
    return { fault: String(error) };
  }
}

/** Bytes with a special meaning, and arbitrary bytes. */
const byte = fc.oneof(
  fc.constantFrom(0, 1, 2, 3, 0x7f, 0x80, 0xff, ...Buffer.from('-09AFGHafg')),
  fc.nat(255),
);
const place = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const damage: fc.Arbitrary<(bytes: Buffer) => Buffer> = fc.oneof(
  fc.tuple(place, byte).map(([where, value]) => (bytes: Buffer) => {
    const changed = Buffer.from(bytes);
    changed[Math.floor(where * bytes.length)] = value;
    return changed;
  }),
  fc
    .tuple(place, fc.nat(3), fc.array(byte, { maxLength: 3 }))
    .map(([where, gone, come]) => (bytes: Buffer) => {
      const at = Math.floor(where * bytes.length);
      return Buffer.concat([bytes.subarray(0, at), Buffer.from(come), bytes.subarray(at + gone)]);
    }),
  place.map((where) => (bytes: Buffer) => bytes.subarray(0, Math.floor(where * bytes.length))),
);

/** Encodes the message in Avro. If `isOdd` returns true, uses a valid form that this version does not write. */
function writtenOtherwise(message: EventsAccepted, isOdd: () => boolean): Buffer {
  const long = (value: number | bigint): Buffer => {
    const bytes: number[] = [];
    let rest = BigInt.asUintN(64, (BigInt(value) << 1n) ^ (BigInt(value) >> 63n));
    for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
    bytes.push(Number(rest));
    if (bytes.length < 10 && isOdd()) bytes.push((bytes.pop() ?? 0) | 0x80, 0);
    return Buffer.from(bytes);
  };
  const text = (value: string | Buffer): Buffer[] => [long(Buffer.byteLength(value)), Buffer.from(value)];
  const uuid = (value: string): Buffer[] => text(isOdd() ? value.toUpperCase() : value);
  const optional = <T>(value: T | null | undefined, write: (value: T) => Buffer[]): Buffer[] =>
    value == null ? [long(0)] : [long(1), ...write(value)];
  const double = (value: number): Buffer[] => {
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleLE(value);
    return [bytes];
  };
  const event = (of: AcceptedEvent): Buffer[] => [
    ...uuid(of.id),
    ...optional(of.sessionId, uuid),
    ...optional(of.buildId, uuid),
    ...text(isOdd() ? Buffer.concat([Buffer.from(of.eventType), Buffer.from([0xff])]) : of.eventType),
    long(of.occurredAt),
    ...text(of.payload),
    Buffer.from([of.overQuota ? (isOdd() ? 7 : 1) : 0]),
    ...optional(of.sequence, (sequence) => [long(sequence)]),
    ...optional(of.sampleRate, double),
  ];
  const block = (events: readonly AcceptedEvent[]): Buffer[] => {
    const bytes = Buffer.concat(events.flatMap(event));
    if (events.length === 0) return [];
    return isOdd() ? [long(-events.length), long(bytes.length), bytes] : [long(events.length), bytes];
  };
  const middle = isOdd() ? 1 : message.events.length;
  return Buffer.concat([
    ...[message.appendId, message.tenantId, message.projectId].flatMap(uuid),
    long(message.receivedAt),
    long(message.revision === 'A' ? 0 : 1),
    ...optional(message.idempotency, ({ key, digest }) => [...uuid(key), digest]),
    ...block(message.events.slice(0, middle)),
    ...block(message.events.slice(middle)),
    long(0),
  ]);
}
