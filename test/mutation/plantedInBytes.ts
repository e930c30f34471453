/** Planted bugs in code that reads and writes bytes: records, responses, and the fast checks of valid events. */
import type { PlantedBug } from './plantedBugs.ts';

const STORE_EVENTS = 'services/ingest/src/events/storeEvents.ts';
const STORE_EVENTS_TEST = 'services/ingest/src/events/storeEvents.test.ts';
const EVENT_COLUMNS = 'services/ingest/src/events/core/eventColumns.ts';
const EVENT_BYTES = 'services/ingest/src/events/core/eventBytes.ts';
const ANSWER = 'services/ingest/src/events/core/answer.ts';
const IN_ORDER_TEST = 'services/ingest/src/events/core/elementsInOrder.test.ts';
const VARINT = 'schemas/src/varint.ts';
const EVENTS_RECORD = 'schemas/src/topics/eventsRecord.ts';
const EVENTS_RECORD_TEST = 'schemas/src/topics/eventsRecord.test.ts';
const RECORD_TEST = 'schemas/src/topics/eventsAccepted.test.ts';

export const PLANTED_IN_BYTES: readonly PlantedBug[] = [
  {
    name: 'length of 64 written in one byte',
    lost: 'no consumer can read a record that was answered with 201',
    file: VARINT,
    text: 'for (; low >= 0x80; low >>>= 7)',
    by: 'for (; low > 0x80; low >>>= 7)',
    tests: [RECORD_TEST],
  },
  {
    name: 'varint of 2^28 without its last byte',
    lost: 'an event has a wrong time or a wrong count in ClickHouse',
    file: VARINT,
    text: 'for (let i = 0; i < 4; i++, low',
    by: 'for (let i = 0; i < 4 && low > 0; i++, low',
    tests: [RECORD_TEST],
  },
  {
    name: 'session and build swapped in the record',
    lost: 'events belong to a different session than the response says, and their reports do not contain them',
    file: 'schemas/src/topics/eventsAccepted.ts',
    text: 'writeOptionalUuid(out, event.session, event.sessionAt);',
    by: 'writeOptionalUuid(out, event.build, event.buildAt);',
    tests: [IN_ORDER_TEST],
  },
  {
    name: 'time outside the range of the tables not rejected',
    lost: 'a record of another producer becomes a row with a time in a wrong century instead of a dead letter',
    file: EVENTS_RECORD,
    text: 'if (isEarly || isLate) this.isIrregular = true;',
    by: '',
    tests: [EVENTS_RECORD_TEST],
  },
  {
    name: 'invalid UUID not rejected',
    lost: 'a damaged record becomes rows with ids that no client has received',
    file: EVENTS_RECORD,
    text: '!readUuid(this.bytes, at, UNUSED_WORDS, 0)',
    by: 'false',
    tests: [EVENTS_RECORD_TEST],
  },
  {
    name: 'session and build swapped in a row',
    lost: 'a session has no events in ClickHouse',
    file: 'services/projector/src/events/rows.ts',
    text: 'writeNullableUuid(out, bytes, record.sessionAt(event));',
    by: 'writeNullableUuid(out, bytes, record.buildAt(event));',
    tests: ['services/projector/src/events/rows.test.ts'],
  },
  {
    name: 'event type not escaped in the response',
    lost: 'a client cannot parse the response',
    file: ANSWER,
    text: 'quoted = JSON.stringify(eventType);',
    by: 'quoted = JSON.stringify(eventType).replaceAll("\\\\", "");',
    tests: [IN_ORDER_TEST],
  },
  {
    name: 'time of the previous event in the response',
    lost: 'a client receives a time that is not stored',
    file: ANSWER,
    text: 'if (micros !== this.#micros) {',
    by: 'if (this.#micros === undefined) {',
    tests: [IN_ORDER_TEST],
  },
  {
    name: 'random bytes used twice',
    lost: 'two events have the same id, and consumers drop the second of two appends',
    file: STORE_EVENTS,
    text: 'this.#pool = this.#pool.subarray(bytes);',
    by: '',
    tests: [STORE_EVENTS_TEST],
  },
  {
    name: 'duplicate field accepted while an event is read',
    lost: 'an event that the contract forbids is answered with 201',
    file: EVENT_COLUMNS,
    text: 'if ((seen & bit) !== 0) return FAILED;',
    by: '',
    tests: [IN_ORDER_TEST],
  },
  {
    name: 'depth of a payload not checked while an event is read',
    lost: 'an event that the contract forbids is answered with 201',
    file: EVENT_COLUMNS,
    text: 'if (end === FAILED || json.depth > MAX_DEPTH) return FAILED;',
    by: 'if (end === FAILED) return FAILED;',
    tests: [IN_ORDER_TEST],
  },
  {
    name: 'build of the first event in every record',
    lost: 'an event is counted under a different build than its session',
    file: EVENT_BYTES,
    text: 'fields.build = buildAt === ABSENT ? (sessions[event]?.build ?? null) : text;',
    by: 'fields.build = buildAt === ABSENT ? (sessions[0]?.build ?? null) : text;',
    tests: [IN_ORDER_TEST],
  },
  {
    name: 'same append id for the records of all sessions',
    lost: 'an event of a retried lenient request is acknowledged, but dropped as a duplicate',
    file: 'services/ingest/src/events/core/recordParts.ts',
    text: "sessionId ?? 'none'",
    by: "'none'",
    tests: ['services/ingest/src/events/core/recordParts.test.ts'],
  },
];
