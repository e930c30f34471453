import type { Project } from '@questlog/schemas/topics/directoryEntry';
import { expect, test } from 'vitest';
import { expirationsOf, markKey } from './expirations.ts';

const NOW = Date.UTC(2026, 10, 22, 15, 30);
const NONE = { events: null, sessions: null, reports: null, links: null, uploads: null };
const TODAY = Date.UTC(2026, 10, 22);
const DAY_MS = 86_400_000;

test('data from before the first retained day expires, and data without a retention time stays', () => {
  const due = expirationsOf(
    [project({ ...NONE, events: 30, uploads: 1 }), project(null, 'q'), project(NONE, 'r')],
    new Map(),
    NOW,
  );
  expect(due).toEqual([
    { what: 'events', tenantId: 't', projectId: 'p', beforeMs: TODAY - 30 * DAY_MS, sinceMs: undefined },
    { what: 'uploads', tenantId: 't', projectId: 'p', beforeMs: TODAY - DAY_MS, sinceMs: undefined },
  ]);
});

test('each kind expires once a day, and again after its retention time was reduced', () => {
  const done = new Map([[markKey('p', 'events'), TODAY - 2 * DAY_MS]]);
  const dueIn = (days: number, nowMs: number) =>
    expirationsOf([project({ ...NONE, events: days })], done, nowMs);
  expect(dueIn(2, NOW)).toEqual([]);
  expect(dueIn(2, TODAY + DAY_MS - 1)).toEqual([]);
  expect(dueIn(2, TODAY + DAY_MS)).toMatchObject([{ beforeMs: TODAY - DAY_MS, sinceMs: TODAY - 2 * DAY_MS }]);
  expect(dueIn(1, NOW)).toMatchObject([{ beforeMs: TODAY - DAY_MS }]);
  // If the retention time was increased, no more data expires, and expired data does not return.
  expect(dueIn(3, NOW)).toEqual([]);
});

test('expirations of different kinds and projects are independent', () => {
  const days = { events: 1, sessions: 2, reports: 3, links: 4, uploads: 5 };
  const done = new Map([[markKey('p', 'events'), TODAY]]);
  const due = expirationsOf([project(days), project({ ...NONE, events: 1 }, 'q')], done, NOW);
  expect(due.map(({ projectId, what, beforeMs }) => [projectId, what, (TODAY - beforeMs) / DAY_MS])).toEqual([
    ...[
      ['p', 'sessions', 2],
      ['p', 'reports', 3],
      ['p', 'links', 4],
      ['p', 'uploads', 5],
    ],
    ['q', 'events', 1],
  ]);
});

function project(retentionDays: Project['retentionDays'] = NONE, id = 'p'): Project {
  return { id, tenantId: 't', name: 'P', revision: null, retentionDays: retentionDays ?? null, createdAt: 1 };
}
