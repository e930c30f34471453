/** Tests a read of a session that is registered while the read runs. */

import { TableIncomplete } from '@questlog/runtime/clickhouse/restored/restoredTable';
import { Unavailable } from '@questlog/runtime/process/errors';
import { expect, test } from 'vitest';
import type { ReadContext } from '../entityCache/readContext.ts';
import { readSession } from './readSessions.ts';

const ID = '7846b5f4-39dd-4381-b200-dbc9f59749ad';
const row = { id: ID, buildId: null, startedAtMicros: '0', registeredAtMillis: '0', metadata: '{}', lane: 0 };

test('returns a session that was registered after the projection’s end was read', async () => {
  const isRegistered = { value: false };
  const deps = readsOf({
    rows: () => (isRegistered.value ? [row] : []),
    find: () => {
      isRegistered.value = true;
      return new Map([[ID, {}]]);
    },
    lacking: new TableIncomplete('ClickHouse was restored'),
  });

  const answer = await readSession(deps, principal, ID);

  expect(JSON.parse(answer.toString())).toMatchObject({ sessionId: ID });
});

test('rejects a read of a session that the cache has and a restored table lacks', async () => {
  const lacking = new TableIncomplete('restored', { retryAfterS: 10 });
  const deps = readsOf({ rows: () => [], find: () => new Map([[ID, {}]]), lacking });

  await expect(readSession(deps, principal, ID)).rejects.toThrow(Unavailable);
});

const principal = { tenant: { id: ID }, project: { id: ID } } as Parameters<typeof readSession>[1];

/** Replaces ClickHouse and the caches, because real components do not stop between two steps of a read. */
function readsOf(state: {
  rows(): object[];
  find(): Map<string, object>;
  lacking: TableIncomplete;
}): ReadContext {
  const projection = { caughtUp: async () => {} };
  return {
    store: { query: async (sql: string) => (sql.includes('metadata, lane') ? state.rows() : []) },
    sessions: { find: async () => state.find(), errorIfIncomplete: async () => state.lacking },
    projections: { events: projection, sessions: projection },
    partitions: 1,
  } as unknown as ReadContext;
}
