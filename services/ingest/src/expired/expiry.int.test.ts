/** Tests that data that retention has removed is shown as expired, and never as missing. */
import { randomUUID } from 'node:crypto';
import { sharedStore } from '@questlog/runtime/clickhouse/chdb/testing/storedReports';
import { aReportLink } from '@questlog/schemas/fixtures/builders';
import { eventId } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { linksOfReport } from '../entityCache/links.ts';
import { sessionSequence } from '../sessions/sessionSequence.ts';
import { expiryOf } from './expiry.ts';

const shared = sharedStore();
const MARK_MS = Date.UTC(2026, 10, 21);
const HOUR_MS = 3_600_000;

test('numbers from before the expiry of events are expired; gaps between stored events are missing', async () => {
  const game = aProject();
  const [old, young, gone] = [randomUUID(), randomUUID(), randomUUID()];
  await game.session(old, MARK_MS - HOUR_MS);
  await game.session(young, MARK_MS + HOUR_MS);
  for (const session of [old, young, gone]) await game.events(session, [6, 7, 9, 10]);
  const missing = [
    [1, 5],
    [8, 8],
  ];
  expect(await game.sequence(old)).toEqual({ received: 4, highest: 10, missing });

  await game.mark('events');

  const expired = { received: 4, highest: 10, missing: [[8, 8]], expired: [[1, 5]] };
  expect(await game.sequence(old)).toEqual(expired);
  // The row of session `gone` does not exist, because the row has expired too.
  expect(await game.sequence(gone)).toEqual(expired);
  expect(await game.sequence(young)).toEqual({ received: 4, highest: 10, missing });
});

test('a session that lacks only expired numbers has no gap', async () => {
  const game = aProject();
  const session = randomUUID();
  await game.events(session, [1, 2, 3]);
  await game.mark('events');
  expect(await game.sequence(session)).toEqual({ received: 3, highest: 3, missing: [] });
});

test('a named event from before the expiry is expired, not unresolved', async () => {
  const game = aProject();
  const [old, young, foreign] = [
    eventId(MARK_MS - HOUR_MS, 0, Buffer.alloc(8)),
    eventId(MARK_MS + HOUR_MS, 0, Buffer.alloc(8)),
    '00000000-0000-4000-8000-000000000000',
  ];
  const states = async (receivedAt = MARK_MS + HOUR_MS) => {
    const filed = aReportLink({ ...game.ids, receivedAt, eventIds: [old, young, foreign] });
    const { links } = await linksOfReport(shared.store, { filed, retractedAt: null }, MARK_MS + 48 * HOUR_MS);
    return new Map(links.map((link) => [link.eventId, link.state]));
  };
  expect(new Set((await states()).values())).toEqual(new Set(['pending']));

  await game.mark('events');
  const marked = await states();
  expect([marked.get(old), marked.get(young), marked.get(foreign)]).toEqual([
    'expired',
    'pending',
    'pending',
  ]);
  await game.mark('links');
  expect(new Set((await states(MARK_MS - 1)).values())).toEqual(new Set(['expired']));
  expect((await states()).get(young)).toBe('pending');
});

test('each kind of data has its own time of expiry', async () => {
  const game = aProject();
  expect(await expiryOf(shared.store, game.ids.projectId)).toEqual({ events: 0, links: 0, uploads: 0 });
  await game.mark('uploads');
  expect(await expiryOf(shared.store, game.ids.projectId)).toEqual({ events: 0, links: 0, uploads: MARK_MS });
});

function aProject() {
  const { store } = shared;
  const [tenantId, projectId] = [randomUUID(), randomUUID()];
  const at = (ms: number): string => `fromUnixTimestamp64Milli(${ms})`;
  return {
    ids: { tenantId, projectId },
    mark: (what: string) =>
      store.command(
        `INSERT INTO retention_marks (project_id, what, expired_before, is_done) VALUES ('${projectId}', '${what}', ${at(MARK_MS)}, 1)`,
      ),
    session: (id: string, ms: number) =>
      store.command(
        `INSERT INTO sessions (tenant_id, project_id, id, registered_at) VALUES ('${tenantId}', '${projectId}', '${id}', ${at(ms)})`,
      ),
    events: (session: string, numbers: readonly number[]) =>
      store.command(
        `INSERT INTO events (id, tenant_id, project_id, session_id, received_at, sequence)
         SELECT generateUUIDv4(number), '${tenantId}', '${projectId}', '${session}', ${at(MARK_MS + 2 * HOUR_MS)}, number
         FROM (SELECT arrayJoin([${numbers}]) AS number)`,
      ),
    sequence: (sessionId: string) => sessionSequence(store, { tenantId, projectId, sessionId }),
  };
}
