/** Hides erased data from the projector's writers, and counts the hidden events. */
import { rowTable } from '@questlog/runtime/clickhouse/rowTable';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { NEVER_WRITTEN } from '@questlog/schemas/tables/erasedEvents';
import type { EventsRecord } from '@questlog/schemas/topics/eventsRecord';
import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import type { SessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import type { ProjectedVisibility } from '@questlog/schemas/visibility';
import type { AcceptedRecord } from './events/core/planEvents.ts';
import { writeRows } from './rowSink.ts';
import type { Projection, Source } from './writer.ts';

type Visible<T> = NonNullable<Projection<T, unknown>['visibleRecords']>;

export const visibleSessions = filter<SessionRegistered>((erased, one) => erased.isVisibleSession(one));
export const visibleReports = filter<ReportLink>((erased, one) => erased.isProjectedReport(one));
export const visibleLinks = filter<LinkedEvent>((erased, one) => erased.isVisibleLink(one));

function filter<T>(isVisible: (erased: ProjectedVisibility, message: T) => boolean): Visible<T> {
  return async (visible, records) => {
    const erased = await visible.latest();
    return records.filter(({ message }) => isVisible(erased, message));
  };
}

/** Keeps all records, because their events are counted. Marks erased events, which get no rows in the table `events`. */
export const visibleEvents: Visible<EventsRecord> = async (visible, records) => {
  const erased = await visible.latest();
  if (erased.isEmpty) return records;
  return records.map((record) => {
    const hidden = erased.erasuresOfEvents(record.message);
    return hidden.size === 0 ? record : { ...record, hidden };
  });
};

export function hiddenCountsOf(record: AcceptedRecord) {
  const byErasure = Map.groupBy(record.hidden?.values() ?? [], (id) => id);
  return [...byErasure].map(([erasureId, { length }]) => ({ ...record, erasureId, events: length }));
}

export async function writeHiddenCounts(
  store: Store,
  { logId, partition }: Source,
  records: readonly AcceptedRecord[],
): Promise<void> {
  const table = rowTable<ReturnType<typeof hiddenCountsOf>[number]>('erased_events', {
    erasure_id: (out, row) => out.uuid(row.erasureId),
    part: (out) => out.uint32(NEVER_WRITTEN),
    tenant_id: (out, row) => out.uuid(row.message.tenantId),
    received_at: (out, row) => out.int64(BigInt(row.message.receivedAt)),
    log_id: (out) => out.uuid(logId),
    log_partition: (out) => out.uint32(partition),
    log_offset: (out, row) => out.uint64(row.offset),
    events: (out, row) => out.uint32(row.events),
  });
  await writeRows(store, table, records.flatMap(hiddenCountsOf));
}
