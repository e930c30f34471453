/**
 * Removes an uploaded file one day after the upload if the file still belongs to no report. Removes the description of an
 * upload if the file never arrived.
 */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { messageOf } from '@questlog/runtime/process/errors';
import { runPeriodically } from '@questlog/runtime/process/waiting';
import { dayOf, storageKey, type UploadKey } from '@questlog/runtime/uploads/core/uploadKey';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import { millisOf } from '@questlog/schemas/uuid';
import type { OperationsContext } from '../context.ts';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;
/**
 * Minimum age at which the cleanup removes a file without a report. A report can contain files of the last 24 hours, and the
 * request with the report can take an hour.
 */
const MIN_AGE_MS = 25 * HOUR_MS;
/** Number of days that the cleanup checks. Must be lower than the retention time of the log, which is 7 days. */
const SWEPT_DAYS = 6;
const INTERVALS = { firstMs: 60_000, everyMs: HOUR_MS };
const KEYS_PER_QUERY = 1_000;
const PROJECTION_WAIT_MS = 10_000;

type SweepContext = Pick<OperationsContext, 'store' | 'projections' | 'clock'>;

export function openSweep(
  context: SweepContext & Pick<OperationsContext, 'logger'>,
  uploads: UploadStore,
  pace = INTERVALS,
): { close(): Promise<void> } {
  const { logger } = context;
  const sweep = async (signal: AbortSignal): Promise<void> => {
    const removed = await sweepUploads(context, uploads, signal);
    if (removed > 0) logger.info('uploads_removed', { uploads: removed });
  };
  // Logs the error without ending the process, because the next run removes the remaining files.
  const close = runPeriodically(sweep, pace, (error) =>
    logger.warn('uploads_not_swept', { cause: messageOf(error) }),
  );
  return { close };
}

function lastDays(nowMs: number): string[] {
  return Array.from({ length: SWEPT_DAYS }, (_, day) => dayOf(nowMs - (day + 1) * DAY_MS));
}

/** Removes old files that belong to no report. Returns the number of removed uploads. */
export async function sweepUploads(
  { store, projections, clock }: SweepContext,
  uploads: UploadStore,
  signal?: AbortSignal,
): Promise<number> {
  const nowMs = clock.now();
  const isOld = ({ uploadId }: UploadKey): boolean => nowMs - millisOf(uploadId) > MIN_AGE_MS;
  let removed = 0;
  for (const day of lastDays(nowMs)) {
    for await (const listed of batches(uploads.list(day))) {
      signal?.throwIfAborted();
      const old = listed.filter(isOld);
      if (old.length === 0) continue;
      await projections.reports.caughtUp('all', PROJECTION_WAIT_MS);
      const named = await namedUploads(store, old);
      for (const key of old.filter((each) => !named.has(storageKey(each)))) {
        signal?.throwIfAborted();
        await uploads.remove(key);
        removed += 1;
      }
    }
  }
  return removed;
}

/**
 * Returns the keys of uploads that belong to reports. Includes retracted reports, because clients can still read these reports.
 */
export async function namedUploads(
  store: Pick<Store, 'query'>,
  uploads: readonly UploadKey[],
): Promise<ReadonlySet<string>> {
  const rows = await store.query<UploadKey>(
    `SELECT DISTINCT project_id AS projectId, upload_id AS uploadId
     FROM report_versions ARRAY JOIN attachments.upload_id AS upload_id
     WHERE project_id IN {projects:Array(UUID)} AND upload_id IN {uploads:Array(UUID)}`,
    {
      projects: [...new Set(uploads.map(({ projectId }) => projectId))],
      uploads: uploads.map(({ uploadId }) => uploadId),
    },
  );
  return new Set(rows.map(storageKey));
}

async function* batches(keys: AsyncIterable<UploadKey>): AsyncGenerator<UploadKey[]> {
  let batch: UploadKey[] = [];
  for await (const key of keys) {
    batch.push(key);
    if (batch.length < KEYS_PER_QUERY) continue;
    yield batch;
    batch = [];
  }
  yield batch;
}
