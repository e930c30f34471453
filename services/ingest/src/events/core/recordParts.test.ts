/** Tests which events of a request share a record. */
import type { Principal } from '@questlog/runtime/directory/directory';
import { expect, test } from 'vitest';
import { RecordParts, recordName, recordShape } from './recordParts.ts';

const KEY = '01a1fe02-7454-7000-a110-3027adf24232';
const SESSION = '7846b5f4-39dd-4381-b200-dbc9f59749ad';

test.each([
  [{}, false, KEY, 'lane'],
  [{}, true, null, 'lane'],
  [{}, true, KEY, 'session'],
  [{ switches: [] }, true, KEY, 'session'],
  [{ switches: [{}] }, true, KEY, 'event'],
  [{ buildIds: [KEY] }, true, KEY, 'event'],
  [{ suspended: true }, true, KEY, 'event'],
] as const)('a request of %j (lenient: %s, key: %s) has one record per %s', (of, isLenient, key, shape) => {
  const principal = { tenant: {}, project: of, ...of } as unknown as Principal;
  expect(recordShape(principal, { isLenient, idempotency: key === null ? null : { key } })).toBe(shape);
});

// The append id is a hash of the name, so a retry at another version needs the same names.
test.each([
  ['lane', SESSION, 'lane 7'],
  ['session', SESSION, `session ${SESSION}`],
  ['session', null, 'session none'],
  ['event', SESSION, 'event 3'],
] as const)(
  'an event of the shape %s with the session %s is in the record "%s"',
  (shape, sessionId, name) => {
    expect(recordName(shape, { index: 3, lane: 7, sessionId })).toBe(name);
  },
);

test.each([
  ['lane', [2, 1]],
  ['session', [2, 1]],
  ['event', [1, 1, 1]],
] as const)('groups separate events of the shape %s', (shape, expected) => {
  for (const [first, second] of [
    [null, SESSION],
    [SESSION, null],
  ] as const) {
    const next = new Uint16Array(3);
    const records = new RecordParts(shape, next);
    for (const [event, sessionId] of [first, second, first].entries())
      records.add(event, event % 2, sessionId);
    expect(records.all.map(({ events }) => events)).toEqual(expected);
    expect(next[0]).toBe(shape === 'event' ? 0 : 2);
  }
});
