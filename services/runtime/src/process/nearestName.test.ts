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
])('%s resembles %s', (name, meant) => {
  expect(nearestName(name, FIELDS, 2)).toBe(meant);
});

test.each([['userId'], ['type'], ['x'], ['it'], [''], ['titanic'], ['x'.repeat(1_000_000)]])(
  '%s resembles no name',
  (name) => {
    expect(nearestName(name, FIELDS, 2)).toBeUndefined();
  },
);

test('returns the closest name within the allowed number of edits', () => {
  expect(nearestName('eventa', ['events', 'eventIds', 'event'], 2)).toBe('events');
  expect(nearestName('ocuredAt', FIELDS, 1)).toBeUndefined();
});
