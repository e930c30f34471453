/**
 * Writes the records of the topic `questlog.linked-events.v1` to ClickHouse. The topic contains links and retractions of links.
 */
import type { BlockWriter } from '@questlog/runtime/consumer/blockWriter';
import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';
import { writeRows } from '../rowSink.ts';
import { visibleLinks } from '../visible.ts';
import { type DecodedRecord, type WriterDeps, writerOf } from '../writer.ts';
import type { LinkRow } from './core/planReports.ts';
import { linkTable } from './rows.ts';

export function openLinksWriter(deps: WriterDeps<LinkedEvent>): BlockWriter<unknown> {
  return writerOf<LinkedEvent, readonly LinkRow[]>(deps, {
    visibleRecords: visibleLinks,
    faultOf,
    plan: async (_, decoded) => decoded.map(rowOf),
    apply: async (rows, _, attempt) => {
      // Checks that this process still owns the partition. A former owner can lack the latest erasures, and would insert links
      // that must be hidden.
      await attempt.confirm();
      await writeRows(deps.store, linkTable(deps), rows);
      deps.onOutcome('written', rows.length);
    },
  });
}

const MAX_VERSION = 255;

function faultOf({ version }: LinkedEvent): string | undefined {
  return version >= 0 && version <= MAX_VERSION ? undefined : `version must be from 0 to ${MAX_VERSION}`;
}

function rowOf({ offset, message }: DecodedRecord<LinkedEvent>): LinkRow {
  const { tenantId, projectId, reportId, event, kind, source, version, changedAt } = message;
  const state = kind === 'linked' ? 'linked' : 'retracted';
  return { tenantId, projectId, reportId, eventId: event.id, state, source, version, changedAt, offset };
}
