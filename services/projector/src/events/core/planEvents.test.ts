import { anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { expect, test } from 'vitest';
import { dropRepeats, minuteCountsOf, quotaKeyOf } from './planEvents.ts';

test('drops an append that was seen before, and the second of two in one block', () => {
  const [first, second, third] = [anEventsAccepted(), anEventsAccepted(), anEventsAccepted()];
  const records = [first, second, second, third, first].map((message, offset) => ({ offset, message }));
  const kept = dropRepeats(records, (id) => id === third.appendId);
  expect(kept.map(({ offset }) => offset)).toEqual([0, 1]);
});

test('the month of the quota is the UTC month of receivedAt', () => {
  const lastMoment = anEventsAccepted({ receivedAt: Date.UTC(2026, 11, 1) - 1 });
  const firstMoment = anEventsAccepted({ receivedAt: Date.UTC(2026, 11, 1) });
  expect(quotaKeyOf(lastMoment).monthDay * 86_400_000).toBe(Date.UTC(2026, 10, 1));
  expect(quotaKeyOf(firstMoment).monthDay * 86_400_000).toBe(Date.UTC(2026, 11, 1));
});

test('counts per minute and type', () => {
  const message = anEventsAccepted({
    receivedAt: Date.UTC(2026, 10, 21, 12, 34, 59, 999),
    events: [{ eventType: 'a' }, { eventType: 'b' }, { eventType: 'a' }],
  });
  expect(
    minuteCountsOf(message).map(({ key, events }) => [key.minuteS * 1000, key.eventType, events]),
  ).toEqual([
    [Date.UTC(2026, 10, 21, 12, 34), 'a', 2],
    [Date.UTC(2026, 10, 21, 12, 34), 'b', 1],
  ]);
});
