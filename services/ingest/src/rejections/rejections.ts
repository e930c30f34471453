/** Counts rejections and ignored fields for the ClickHouse table `rejects`. A crash of the process can lose counts. */
import { randomUUID } from 'node:crypto';
import {
  type CountedInsert,
  type FlushDeps,
  flushPeriodically,
} from '@questlog/runtime/clickhouse/flushPeriodically';
import { insertOf, rowTable } from '@questlog/runtime/clickhouse/rowTable';
import type { Principal } from '@questlog/runtime/directory/directory';
import { NIL_UUID } from '@questlog/schemas/uuid';
import { BodyParts } from './core/offendingPart.ts';
import { EMPTY_PART, type Rejection, RejectionCounts, type RejectionRow } from './core/rejectionCounts.ts';

export interface RejectedRequest {
  readonly principal: Principal | undefined;
  /** Method and path of the endpoint. Empty if the request's path belongs to no endpoint. */
  readonly endpoint: string;
  /** Access token of the request. A stored sample of the body shows asterisks instead of this token. */
  readonly token: string;
  readonly body: Buffer | undefined;
  /** Position of a syntax error in the body. Undefined if the JSON pointers in `rejections` show the errors' positions. */
  readonly failedAt: number | undefined;
  readonly rejections: readonly Rejection[];
}

export interface Rejections {
  record(request: RejectedRequest): void;
}

/** Maximum number of stored samples per request, because each sample requires a scan of the body. */
const MAX_PARTS_PER_REQUEST = 10;

export function openRejections(deps: FlushDeps): Rejections {
  const { clock, logger, dropped } = deps;
  const counts = new RejectionCounts();
  flushPeriodically(deps, 'rejects', (nowMs) => countedInsert(counts.takeCounts(nowMs)));
  return {
    record: (request) => {
      try {
        const droppedCount = note(counts, clock.now(), request);
        if (droppedCount > 0) dropped.inc(droppedCount);
      } catch (error) {
        logger.error('reject_not_counted', error, { bug: true });
      }
    },
  };
}

function note(
  counts: RejectionCounts,
  nowMs: number,
  { principal, endpoint, token, body, failedAt, rejections: rejects }: RejectedRequest,
): number {
  if (endpoint === '' && token === '') return 0;
  const origin = {
    tenantId: principal?.tenant.id ?? NIL_UUID,
    projectId: principal?.project.id ?? NIL_UUID,
    endpoint,
  };
  const parts = body === undefined ? undefined : new BodyParts(body, token);
  let remainingParts = MAX_PARTS_PER_REQUEST;
  return counts.add(nowMs, origin, rejects, (reject) => {
    // Stores no sample of the body for the problem `rate_limited`, because the body is not the cause of this problem.
    if (parts === undefined || reject.code === 'rate_limited' || remainingParts-- <= 0) return EMPTY_PART;
    return failedAt === undefined ? parts.at(reject) : parts.around(failedAt);
  });
}

function countedInsert(rows: readonly RejectionRow[]): CountedInsert | undefined {
  if (rows.length === 0) return undefined;
  return {
    ...insertOf(REJECT_COUNTS, rows),
    // Token by which ClickHouse recognizes a retried insert and ignores it.
    deduplicationToken: randomUUID(),
    count: rows.reduce((sum, { count }) => sum + count, 0),
  };
}

const KINDS = { rejected: 0, ignored: 1, warned: 2 } as const;

const REJECT_COUNTS = rowTable<RejectionRow>('reject_counts', {
  tenant_id: (out, { tenantId }) => out.uuid(tenantId),
  project_id: (out, { projectId }) => out.uuid(projectId),
  minute: (out, { minuteS }) => out.uint32(minuteS),
  kind: (out, { kind }) => out.uint8(KINDS[kind]),
  code: (out, { code }) => out.string(code),
  field: (out, { field }) => out.string(field),
  endpoint: (out, { endpoint }) => out.string(endpoint),
  count: (out, { count }) => out.uint64(count),
  requests: (out, { requests }) => out.uint64(requests),
  last_seen: (out, { lastSeenS }) => out.uint32(lastSeenS),
  event_type: (out, { part }) => out.string(part.eventType),
  sample: (out, { part }) => out.string(part.sample),
});
