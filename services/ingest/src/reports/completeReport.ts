/** Stores the inline events of a report (the events in the report request) that are missing after a failed request. */

import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Principal } from '@questlog/runtime/directory/directory';
import { IncompleteReport } from '@questlog/runtime/http/rejected';
import type { ProjectionProgress } from '@questlog/runtime/log/projection/projection';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { partitionsOf } from '@questlog/schemas/partition';
import { closesAtMs } from '@questlog/schemas/reportWindow';
import { EVENT_COLUMNS, type EventRow, eventOfRow } from '@questlog/schemas/tables/events';
import type { AcceptedEvent } from '@questlog/schemas/topics/eventsAccepted';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { laneOf } from '@questlog/schemas/uuid';
import type { ShownLink } from '../entityCache/links.ts';
import type { ReportCache } from '../entityCache/reportCache.ts';
import type { Draft } from '../events/core/envelope.ts';
import {
  appendEvents,
  type DecidedEvents,
  decideEvents,
  type StoreEventsDeps,
} from '../events/storeEvents.ts';

export interface CompletedEvents {
  readonly events: readonly AcceptedEvent[];
  readonly isCompleted: boolean;
}

/**
 * Stores missing inline events (the events in a report request), even if they are older than the retention. Returns all inline
 * events of the report.
 * @param drafts valid events of the request. Empty if the body differs from the original request
 */
export async function completeEvents(
  deps: StoreEventsDeps & { readonly store: Store; readonly projection: ProjectionProgress },
  principal: Principal,
  filed: ReportLink,
  drafts: readonly Draft[],
): Promise<CompletedEvents> {
  const ids = filed.inlineEventIds;
  if (ids.length === 0) return { events: [], isCompleted: false };
  const lanes = ids.map(laneOf);
  await deps.projection.caughtUp(partitionsOf(filed.tenantId, lanes, deps.partitions));
  const stored = await storedEvents(deps.store, filed);
  const storedLanes = new Set([...stored.keys()].map(laneOf));
  const positions = [...ids.keys()].filter((position) => !storedLanes.has(lanes[position] ?? 0));
  const added = await storeMissing(deps, principal, filed, drafts, positions);
  for (const event of added) stored.set(event.id, event);
  const events = ids.flatMap((id, position): AcceptedEvent[] => {
    const [event, draft] = [stored.get(id), drafts[position]];
    if (event !== undefined || draft === undefined) return event ? [event] : [];
    // Builds the response from the request if retention has removed the stored event.
    const occurredAt = draft.occurredAt ?? BigInt(filed.receivedAt) * 1000n;
    return [{ ...draft, id, occurredAt, overQuota: false }];
  });
  return { events, isCompleted: added.length > 0 };
}

export async function appendInlineEvents(
  deps: StoreEventsDeps,
  principal: Principal,
  reportId: string,
  decided: DecidedEvents,
): Promise<void> {
  try {
    await appendEvents(deps, principal, decided);
  } catch (error) {
    throw error instanceof Unavailable ? new IncompleteReport(reportId, error) : error;
  }
}

/** True if an inline event has the link state `unresolved`. In this state, the linker did not find the event in time. */
export function hasUnresolvedInlineEvents(links: readonly ShownLink[]): boolean {
  return links.some(({ state, source }) => state === 'unresolved' && source === 'inline');
}

/**
 * Length of the last part of a report's grace period. The linker's last search can miss an event that is stored in this part.
 */
const LAST_LOOK_UP_MARGIN_MS = 60_000;

export async function appendRetry(
  { reports, clock }: { reports: ReportCache; clock: Clock },
  filed: ReportLink,
): Promise<void> {
  if (clock.now() <= closesAtMs(filed) - LAST_LOOK_UP_MARGIN_MS) return;
  await reports.append({ ...filed, kind: 'retried' });
}

async function storedEvents(
  store: Store,
  { tenantId, projectId, receivedAt, inlineEventIds }: ReportLink,
): Promise<Map<string, AcceptedEvent>> {
  const rows = await store.query<EventRow>(
    `SELECT ${EVENT_COLUMNS} FROM events
     WHERE tenant_id = {tenantId:UUID} AND project_id = {projectId:UUID}
       AND id_at = fromUnixTimestamp64Milli({millis:Int64}) AND id IN {ids:Array(UUID)} LIMIT 1 BY id`,
    { tenantId, projectId, millis: receivedAt, ids: inlineEventIds },
  );
  return new Map(rows.map((row) => [row.id, eventOfRow(row)]));
}

/** Stores missing events with their original event ids and append ids, so that consumers detect duplicates. */
async function storeMissing(
  deps: StoreEventsDeps,
  principal: Principal,
  { reportId, receivedAt, inlineEventIds }: ReportLink,
  drafts: readonly Draft[],
  positions: readonly number[],
): Promise<readonly AcceptedEvent[]> {
  const missing = positions.flatMap((position) => {
    const [draft, id] = [drafts[position], inlineEventIds[position]];
    return draft === undefined || id === undefined ? [] : [{ ...draft, id, lane: laneOf(id) }];
  });
  if (missing.length === 0) return [];
  const decided = await decideEvents(deps, principal, { receivedAt, drafts: missing, reportId });
  await appendInlineEvents(deps, principal, reportId, decided);
  return decided.created;
}
