/**
 * Keeps count of what was refused and ignored, for ClickHouse's `rejects`. Best effort: no answer waits for it, none fails
 * by it, and only a request with something to count costs anything.
 */
import { randomUUID } from 'node:crypto';
import { RowBinaryWriter } from '@questlog/runtime/clickhouse/rowBinary';
import type { Insert, Store } from '@questlog/runtime/clickhouse/store';
import type { Principal } from '@questlog/runtime/directory/directory';
import type { Clock } from '@questlog/runtime/process/clock';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import type { Lifecycle } from '@questlog/runtime/process/lifecycle';
import type { Logger } from '@questlog/runtime/process/logger';
import { settledWithin } from '@questlog/runtime/process/waiting';
import { BodyParts } from './core/offendingPart.ts';
import { NO_PART, NOBODY, type Reject, RejectCounts, type RejectRow } from './core/rejectCounts.ts';

export interface RejectedRequest {
  /** Undefined without a valid token. */
  readonly principal: Principal | undefined;
  /** Method and path of the endpoint; empty: none has the path. */
  readonly endpoint: string;
  /** What was sent as a token, which nothing may be kept of. */
  readonly token: string;
  /** Undefined where it was not read, or is not what was wrong. */
  readonly body: Buffer | undefined;
  /** Where to look in the body; undefined: at the field of each reject. */
  readonly failedAt: number | undefined;
  readonly rejects: readonly Reject[];
}

export interface Rejects {
  /** Never throws. */
  note(request: RejectedRequest): void;
}

export interface RejectsDeps {
  readonly store: Pick<Store, 'insert'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly lifecycle: Pick<Lifecycle, 'onStop'>;
  /** Counts what is not in ClickHouse and never will be. */
  readonly dropped: { inc(by: number): void };
}

const FLUSH_EVERY_MS = 2_000;
/** A stop has other things to do. */
const LAST_FLUSH_MS = 3_000;
/** Each walks over the body: no request may hold up the others by being wrong in many ways. */
const MAX_PARTS_OF_A_REQUEST = 10;

export function openRejects({ store, clock, logger, lifecycle, dropped }: RejectsDeps): Rejects {
  const counts = new RejectCounts();
  /** One insert, until ClickHouse has it or refuses it: its token makes sure that none counts twice. */
  let unsent: (Insert & { readonly count: number }) | undefined;
  let isAway = false;

  const flush = async (): Promise<void> => {
    unsent ??= insertOf(counts.take(clock.now()));
    if (unsent === undefined) return;
    try {
      await store.insert(unsent);
      isAway = false;
    } catch (error) {
      if (error instanceof Unavailable) {
        if (!isAway) logger.warn('rejects_wait_for_clickhouse', { cause: messageOf(error) });
        isAway = true;
        return;
      }
      dropped.inc(unsent.count);
      logger.error('rejects_not_written', error, { bug: true });
    }
    unsent = undefined;
  };
  let running: Promise<void> | undefined;
  const timer = setInterval(() => {
    // None waits behind an insert that hangs.
    running ??= flush().finally(() => {
      running = undefined;
    });
  }, FLUSH_EVERY_MS);
  lifecycle.onStop('rejects', async () => {
    clearInterval(timer);
    // Twice: what waits for ClickHouse goes first.
    await settledWithin(Promise.resolve(running).then(flush).then(flush), LAST_FLUSH_MS);
  });

  return {
    note: (request) => {
      try {
        const beyond = note(counts, clock.now(), request);
        if (beyond > 0) dropped.inc(beyond);
      } catch (error) {
        logger.error('reject_not_counted', error, { bug: true });
      }
    },
  };
}

function note(
  counts: RejectCounts,
  nowMs: number,
  { principal, endpoint, token, body, failedAt, rejects }: RejectedRequest,
): number {
  // A browser or a scanner, and no game.
  if (endpoint === '' && token === '') return 0;
  const origin = {
    tenantId: principal?.tenant.id ?? NOBODY,
    projectId: principal?.project.id ?? NOBODY,
    endpoint,
  };
  const parts = body === undefined ? undefined : new BodyParts(body, token);
  let left = MAX_PARTS_OF_A_REQUEST;
  return counts.note(nowMs, origin, rejects, (reject) => {
    if (parts === undefined || left-- <= 0) return NO_PART;
    return failedAt === undefined ? parts.at(reject) : parts.around(failedAt);
  });
}

function insertOf(rows: readonly RejectRow[]): (Insert & { readonly count: number }) | undefined {
  if (rows.length === 0) return undefined;
  const out = new RowBinaryWriter();
  for (const row of rows) writeRow(out, row);
  return {
    table: 'reject_counts',
    columns: `tenant_id project_id minute kind code field endpoint count requests last_seen event_type
      sample`.split(/\s+/),
    rows: out.bytes(),
    // Of an insert that is tried again, since its outcome is unknown.
    deduplicationToken: randomUUID(),
    count: rows.reduce((sum, { count }) => sum + count, 0),
  };
}

function writeRow(out: RowBinaryWriter, row: RejectRow): void {
  out.uuid(row.tenantId);
  out.uuid(row.projectId);
  out.uint32(row.minuteS);
  out.uint8(row.kind === 'rejected' ? 0 : 1);
  out.string(row.code);
  out.string(row.field);
  out.string(row.endpoint);
  out.uint64(row.count);
  out.uint64(row.requests);
  out.uint32(row.lastSeenS);
  out.string(row.part.eventType);
  out.string(row.part.sample);
}
