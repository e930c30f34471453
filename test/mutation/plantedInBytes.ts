/** Planted bugs in code that reads and writes bytes: records, responses, and the fast checks of valid events. */
import type { PlantedBug } from './plantedBugs.ts';

const STORE_EVENTS = 'services/ingest/src/events/storeEvents.ts';
const STORE_EVENTS_TEST = 'services/ingest/src/events/storeEvents.test.ts';
const ORDINARY = 'services/ingest/src/events/core/ordinaryEvents.ts';
const ORDINARY_BYTES = 'services/ingest/src/events/core/ordinaryBytes.ts';
const ENVELOPE = 'services/ingest/src/events/core/envelope.ts';
const ANSWER = 'services/ingest/src/events/core/answer.ts';
const IN_ORDER_TEST = 'services/ingest/src/events/core/elementsInOrder.test.ts';
const EVENTS_RECORD = 'schemas/src/topics/eventsRecord.ts';
const EVENTS_RECORD_TEST = 'schemas/src/topics/eventsRecord.test.ts';
const RECORD_TEST = 'schemas/src/topics/eventsAccepted.test.ts';

export const PLANTED_IN_BYTES: readonly PlantedBug[] = [
  {
    name: 'a length of 64 written in one byte',
    lost: 'a record that was answered 201 cannot be read by any consumer',
    file: 'schemas/src/byteWriter.ts',
    text: 'for (; low >= 0x80; low >>>= 7)',
    by: 'for (; low > 0x80; low >>>= 7)',
    tests: [RECORD_TEST],
  },
  {
    name: 'a varint of 2^28 that loses a byte',
    lost: 'the time or the count of an event is another one in ClickHouse',
    file: 'schemas/src/byteWriter.ts',
    text: 'for (let i = 0; i < 4; i++, low',
    by: 'for (let i = 0; i < 4 && low > 0; i++, low',
    tests: [RECORD_TEST],
  },
  {
    name: 'session and build swapped in the record',
    lost: 'events are of another session than the answer told, and in no report of theirs',
    file: 'schemas/src/topics/eventsAccepted.ts',
    text: 'writeOptionalUuid(out, event.sessionId);',
    by: 'writeOptionalUuid(out, event.buildId);',
    tests: [IN_ORDER_TEST],
  },
  {
    name: 'a time that no table holds',
    lost: 'a foreign record is a row of another century instead of a dead letter',
    file: EVENTS_RECORD,
    text: 'if (isEarly || isLate) this.isIrregular = true;',
    by: '',
    tests: [EVENTS_RECORD_TEST],
  },
  {
    name: 'an id that is no UUID',
    lost: 'a damaged record becomes rows of ids that nobody was told',
    file: EVENTS_RECORD,
    text: '!hasUuidAt(this.#bytes, at)',
    by: 'false',
    tests: [EVENTS_RECORD_TEST],
  },
  {
    name: 'session and build swapped in a row',
    lost: 'a session lacks its events in ClickHouse',
    file: 'services/projector/src/events/rows.ts',
    text: 'writeNullableUuid(out, bytes, record.sessionAt(event));',
    by: 'writeNullableUuid(out, bytes, record.buildAt(event));',
    tests: ['services/projector/src/events/rows.test.ts'],
  },
  {
    name: 'a type that is not escaped in the answer',
    lost: 'a game cannot parse what it is answered',
    file: ANSWER,
    text: 'quoted = JSON.stringify(eventType);',
    by: 'quoted = JSON.stringify(eventType).replaceAll("\\\\", "");',
    tests: [IN_ORDER_TEST],
  },
  {
    name: 'the answered time of the event before',
    lost: 'a game is answered a time that is not stored',
    file: ANSWER,
    text: 'if (micros !== this.#micros) {',
    by: 'if (this.#micros === undefined) {',
    tests: [IN_ORDER_TEST],
  },
  ...[
    ['element.end - element.start <= LIMITS.maxEventBytes &&', 'how large an event may be'],
    ['element.repeated.length === 0 &&', 'that a field comes once'],
    ['element.loneSurrogate.length === 0 &&', 'halves of characters'],
    ['element.tooDeep === undefined &&', 'how deep a payload may nest'],
    ['&& Number(sequence) >= 1', 'that numbers begin at 1'],
  ].map(([text = '', what = '']) => ({
    name: `the short check forgets ${what}`,
    lost: 'what the contract refuses is answered 201',
    file: ENVELOPE,
    text,
    by: '',
    tests: [IN_ORDER_TEST],
  })),
  {
    name: 'a UUID kept as it was written where it comes again',
    lost: 'the second event of a session is refused: no session is named so',
    file: ENVELOPE,
    text: 'this.#canonical.set(field, canonical);',
    by: 'this.#canonical.set(field, canonical && field);',
    tests: [IN_ORDER_TEST],
  },
  {
    name: 'random bytes given out twice',
    lost: 'two events have one id, and consumers drop the second of two appends',
    file: STORE_EVENTS,
    text: 'this.#pool = this.#pool.subarray(bytes);',
    by: '',
    tests: [STORE_EVENTS_TEST],
  },
  {
    name: 'a field that comes twice is ordinary',
    lost: 'what the contract refuses is answered 201',
    file: ORDINARY,
    text: 'if (field === NO_FIELD || (seen & bit) !== 0) return FAILED;',
    by: 'if (field === NO_FIELD) return FAILED;',
    tests: [IN_ORDER_TEST],
  },
  {
    name: 'how deep a payload nests is no matter of the ordinary way',
    lost: 'what the contract refuses is answered 201',
    file: ORDINARY,
    text: 'if (end === FAILED || json.depth > MAX_DEPTH) return FAILED;',
    by: 'if (end === FAILED) return FAILED;',
    tests: [IN_ORDER_TEST],
  },
  {
    name: 'the build of the event before in an ordinary record',
    lost: 'an event is counted under another build than its session has',
    file: ORDINARY_BYTES,
    text: 'const build = sessionBuilds[event] ?? null;\n    if (buildAt === ABSENT && build !== null) writeUuid',
    by: 'const build = sessionBuilds[0] ?? null;\n    if (buildAt === ABSENT && build !== null) writeUuid',
    tests: [IN_ORDER_TEST],
  },
];
