import { expect, test } from 'vitest';
import { nearestName } from './nearestName.ts';

const FIELDS = ['sessionId', 'buildId', 'eventType', 'occurredAt', 'payload', 'id', 'title'];

test.each([
  ['sessionid', 'sessionId'],
  ['session_id', 'sessionId'],
  ['SESSION_ID', 'sessionId'],
  ['evenType', 'eventType'],
  ['eventTypes', 'eventType'],
  ['evnetType', 'eventType'],
  ['occuredAt', 'occurredAt'],
  ['ocuredAt', 'occurredAt'],
  ['paylaod', 'payload'],
  ['ID', 'id'],
  ['tilte', 'title'],
])('%s is a near miss of %s', (name, meant) => {
  expect(nearestName(name, FIELDS, 2)).toBe(meant);
});

test.each([['userId'], ['type'], ['x'], ['it'], [''], ['titanic'], ['x'.repeat(1_000_000)]])(
  '%s is none',
  (name) => {
    expect(nearestName(name, FIELDS, 2)).toBeUndefined();
  },
);

test('the closest one counts, and not more edits than asked', () => {
  expect(nearestName('eventa', ['events', 'eventIds', 'event'], 2)).toBe('events');
  expect(nearestName('ocuredAt', FIELDS, 1)).toBeUndefined();
});
