import { expect, test } from 'vitest';
import { outlivesSessions } from './sessionDays.ts';

const DAYS = { events: 30, sessions: 30, reports: 30, links: 30, uploads: 30 };
type Days = Parameters<typeof outlivesSessions>[0];

test.each<[Days]>([
  [null],
  [undefined],
  [DAYS],
  [{ ...DAYS, events: 7 }],
  [{ ...DAYS, sessions: null, events: null }],
])('nothing outlasts the sessions of %j', (days) => {
  expect(outlivesSessions(days)).toBeUndefined();
});

test.each<[object, string, string]>([
  [{ events: 31 }, 'events for 31', '31'],
  [{ events: 60, reports: 90 }, 'events for 60, reports for 90', '90'],
  [{ uploads: null }, 'uploads for ever', 'for ever (null)'],
  [{ events: 60, uploads: null }, 'events for 60, uploads for ever', 'for ever (null)'],
])(
  'who keeps %j longer than the sessions is told what, and how long to keep them',
  (longer, named, least) => {
    expect(outlivesSessions({ ...DAYS, ...longer })).toBe(
      `sessions are kept for 30 days, ${named}: whose they are only the sessions tell, so keep those ${least}, or the others no longer than them`,
    );
  },
);
