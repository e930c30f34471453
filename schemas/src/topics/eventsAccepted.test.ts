/** Tests that the hand-written encoder writes the same bytes as avsc. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { anEventsAccepted } from '../../fixtures/builders.ts';
import { frame, parseSchema } from './contract.ts';
import { type EventsAccepted, eventsAccepted } from './eventsAccepted.ts';
import { someEvents } from './someEvents.testing.ts';

const registered = parseSchema<EventsAccepted>(eventsAccepted.schema);

test('encodes a record byte for byte like avsc', () => {
  fc.assert(
    fc.property(someEvents, fc.nat(), (one, schemaId) => {
      const expected = frame(schemaId, registered.toBuffer(one));
      expect(eventsAccepted.framed(schemaId, one).equals(expected)).toBe(true);
    }),
    { numRuns: 300 },
  );
});

test('encodes an event without a sample rate like an event with sample rate null', () => {
  fc.assert(
    fc.property(someEvents, (one) => {
      const events = one.events.map(({ sampleRate: _, ...rest }) => rest);
      const expected = frame(1, registered.toBuffer({ ...one, events }));
      expect(eventsAccepted.framed(1, { ...one, events }).equals(expected)).toBe(true);
    }),
    { numRuns: 50 },
  );
});

/** An event type with a lone surrogate is rejected earlier. avsc would write bytes that are not valid UTF-8. */
test('encodes a lone surrogate as the replacement character', () => {
  for (const eventType of ['\ud83c', 'a\udfaeb', '\udfae\ud83c'.repeat(40)]) {
    const one = anEventsAccepted({ events: [{ eventType }] });
    const events = one.events.map((event) => ({ ...event, eventType: eventType.toWellFormed() }));
    const expected = frame(1, registered.toBuffer({ ...one, events }));
    expect(eventsAccepted.framed(1, one).equals(expected)).toBe(true);
  }
});
