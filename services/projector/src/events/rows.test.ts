/**
 * Tests the rows that are copied from a record's bytes. They must equal the rows that are encoded from the message that avsc
 * decodes.
 */
import { randomUUID } from 'node:crypto';
import { RowBinaryWriter } from '@questlog/runtime/clickhouse/rowBinary';
import { type EventsAccepted, eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { eventsInBytes } from '@questlog/schemas/topics/eventsRecord';
import { someEvents } from '@questlog/schemas/topics/someEvents.testing';
import { millisOf } from '@questlog/schemas/uuid';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EVENTS } from './rows.ts';

const PLACE = { logId: randomUUID(), partition: 3, orphanIds: [], offset: 2 ** 40 + 7 };

test('encodes an event’s row byte for byte like its message', () => {
  fc.assert(
    fc.property(someEvents, fc.array(fc.nat(5)), (message, gone) => {
      const bytes = eventsAccepted.type.toBuffer(message);
      const hidden = new Map(gone.map((event) => [event, randomUUID()]));
      const [out, expected] = [new RowBinaryWriter(0), new RowBinaryWriter()];
      EVENTS.write(out, { position: PLACE, message: eventsInBytes.type.fromBuffer(bytes), hidden });
      writeRows(expected, eventsAccepted.type.fromBuffer(bytes), hidden);
      expect(out.written().equals(expected.written())).toBe(true);
    }),
    { numRuns: 500 },
  );
});

/** Encodes a row column by column, in the order of `EVENTS.columns`. */
function writeRows(out: RowBinaryWriter, message: EventsAccepted, hidden: ReadonlyMap<number, string>): void {
  for (const [index, event] of message.events.entries()) {
    if (hidden.has(index)) continue;
    out.uuid(message.tenantId);
    out.uuid(message.projectId);
    out.uint64(message.receivedAt);
    out.uuid(PLACE.logId);
    out.uint32(PLACE.partition);
    out.uint64(PLACE.offset);
    out.uint32(index);
    out.uuid(event.id);
    out.uint64(millisOf(event.id));
    out.nullableUuid(event.sessionId);
    out.nullableUuid(event.buildId);
    out.string(event.eventType);
    out.int64(event.occurredAt);
    out.stringBytes(event.payload);
    out.uint8(event.overQuota ? 1 : 0);
    out.nullable(event.sequence, (sequence) => out.uint64(sequence));
    out.doubleLE(event.sampleRate ?? 1);
  }
}
