/** Test support: a ClickHouse with the product's tables, and bulk inserts of reports and links. */
import { NIL_UUID } from '@questlog/schemas/uuid';
import { beforeAll } from 'vitest';
import type { Store } from '../../store.ts';
import { emptyTables } from './sharedEngine.ts';

/** Provides one store for all tests of a file. Each test uses its own projects. */
export function sharedStore(): { readonly store: Store } {
  let shared: Store | undefined;
  beforeAll(async () => {
    shared = (await emptyTables()).store;
  }, 60_000);
  return {
    get store() {
      if (shared === undefined) throw new Error('the store can be used only after `beforeAll` has opened it');
      return shared;
    },
  };
}

/** Inserts reports of one session, named by their number from 0. `receivedAt` is SQL over `number`, in milliseconds. */
export async function addReports(
  store: Store,
  { projectId, count, receivedAt }: { projectId: string; count: number; receivedAt: string },
): Promise<void> {
  await store.command(
    `INSERT INTO report_versions (tenant_id, project_id, id, session_id, session_lane, occurred_at, received_at,
       window_before_ms, window_after_ms, from_micros, to_micros, inline_event_ids, event_ids, request_sha256,
       retracted_at, version, log_id, log_partition, log_offset)
     SELECT '${NIL_UUID}', '${projectId}', ${uuidOf('number')}, '${projectId}', 0,
       fromUnixTimestamp64Micro(1000 * (${receivedAt})), fromUnixTimestamp64Milli(${receivedAt}), 600000, 60000,
       0, 0, [], [${uuidOf('number')}], NULL, NULL, 0, '${NIL_UUID}', 0, number
     FROM numbers(${count})`,
  );
}

/** Inserts new versions of links. Each report has its own event, or one report has `events` events. */
export async function addLinks(
  store: Store,
  links: {
    projectId: string;
    reports: readonly number[] | { one: number; events: number };
    state: 'unresolved' | 'linked';
    changedAt: number;
  },
): Promise<void> {
  const { projectId, reports, state, changedAt } = links;
  const [report, event, rows] =
    'one' in reports
      ? [`${reports.one}`, 'number', `numbers(${reports.events})`]
      : ['report', 'report', `(SELECT arrayJoin([${reports.join(', ')}]) AS report)`];
  const version = state === 'unresolved' ? 1 : 2;
  await store.command(
    `INSERT INTO report_link_versions
     SELECT '${NIL_UUID}', '${projectId}', ${uuidOf(report)}, ${uuidOf(event)}, '${state}', 'named', ${version},
       fromUnixTimestamp64Milli(${changedAt}), '${NIL_UUID}', 0, 0
     FROM ${rows}`,
  );
}

/** Returns the id of the report or event with this number. */
export function numbered(number: number): string {
  return `00000000-0000-7000-8000-${number.toString(16).padStart(12, '0')}`;
}

function uuidOf(number: string): string {
  return `toUUID(concat('00000000-0000-7000-8000-', lower(leftPad(hex(toUInt64(${number})), 12, '0'))))`;
}
