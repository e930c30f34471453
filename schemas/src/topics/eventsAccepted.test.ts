/** The record as it is written by hand, beside what avsc writes of the same values: byte for byte. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { anEventsAccepted } from '../../fixtures/builders.ts';
import { frame, parseSchema } from './contract.ts';
import { type EventsAccepted, eventsAccepted } from './eventsAccepted.ts';
import { someEvents } from './someEvents.testing.ts';

/** Runs are ten times as many in the tier of faults. */
const TIMES = process.env['QUESTLOG_TEST_RUNS'] === 'long' ? 10 : 1;

const registered = parseSchema<EventsAccepted>(eventsAccepted.schema);

test('a record is written byte for byte as avsc writes it', () => {
  fc.assert(
    fc.property(someEvents, fc.nat(), (one, schemaId) => {
      const expected = frame(schemaId, registered.toBuffer(one));
      expect(eventsAccepted.framed(schemaId, one).equals(expected)).toBe(true);
    }),
    { numRuns: 300 * TIMES },
  );
});

test('an event without a sample rate is written as one of which all were kept', () => {
  fc.assert(
    fc.property(someEvents, (one) => {
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
