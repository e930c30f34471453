/** Detects lost appends of this process. A truncation removed them from the log before the projector read them. */
import { createHash } from 'node:crypto';
import { insertOf, rowTable } from '@questlog/runtime/clickhouse/rowTable';
import { chunksOf, type Store } from '@questlog/runtime/clickhouse/store';
import type { TruncatedRange } from '@questlog/runtime/log/truncation/participants';
import { pause, retry } from '@questlog/runtime/process/waiting';
import { FOUND_BY_INGEST } from '@questlog/schemas/tables/truncations';
import { uuidV8 } from '@questlog/schemas/uuid';
import type { IngestContext } from '../context.ts';
import type { OwnAppend } from './ownAppends.ts';

/** Delay before the check for lost appends. During the delay, retries and the projector's current insert can finish. */
export const CHECK_DELAY_MS = 10_000;

export async function reportLostAppends(
  context: Pick<IngestContext, 'log' | 'store' | 'logger' | 'metrics' | 'clock'>,
  truncated: TruncatedRange,
  lost: readonly OwnAppend[],
  signal: AbortSignal,
  checkDelayMs = CHECK_DELAY_MS,
): Promise<void> {
  const { store, logger, metrics, log, clock } = context;
  const { topic, partition, offset } = truncated;
  if (lost.length === 0) return;
  await pause(checkDelayMs, signal);
  if (signal.aborted) return;
  const onDelay = (cause: Error, backoffMs: number): void =>
    logger.error('lost_appends_delayed', cause, { topic, partition, backoffMs });
  const retryOptions = { signal, onDelay };
  const projectedIds = await retry(() => projected(store, lost), retryOptions);
  const missing = lost.filter(({ appendId }) => !projectedIds.has(appendId));
  if (missing.length === 0) return;
  const times = missing.map(({ receivedAt }) => receivedAt);
  const [firstMs, lastMs] = [times.reduce(min), times.reduce(max)];
  const events = missing.reduce((sum, one) => sum + one.events, 0);
  const summary = { appends: missing.length, events, from: new Date(firstMs), to: new Date(lastMs) };
  logger.error('acknowledged_appends_lost', APPENDS_LOST, { topic, partition, offset, ...summary });
  metrics.lostAppends.inc({ topic, partition }, missing.length);
  const ids = missing.map(({ appendId }) => appendId);
  const row = { ...truncated, logId: log.id, ids, firstMs, lastMs, foundMs: clock.now() };
  await retry(() => store.insert(insertOf(LOST_APPENDS, [row])), retryOptions);
}

const APPENDS_LOST =
  'acknowledged appends were lost in a truncation: they are neither in the log nor in ClickHouse; see the table truncations';

async function projected(store: Pick<Store, 'query'>, lost: readonly OwnAppend[]): Promise<Set<string>> {
  const projectedIds = new Set<string>();
  for (const part of chunksOf(lost)) {
    const ids = part.map(({ appendId }) => appendId);
    const sql = 'SELECT append_id AS id FROM appends WHERE append_id IN {ids:Array(UUID)}';
    for (const { id } of await store.query<{ id: string }>(sql, { ids })) projectedIds.add(id);
  }
  return projectedIds;
}

interface LostRow extends TruncatedRange {
  readonly logId: string;
  readonly ids: readonly string[];
  readonly firstMs: number;
  readonly lastMs: number;
  readonly foundMs: number;
}

const LOST_APPENDS = rowTable<LostRow>('truncations', {
  log_id: (out, { logId }) => out.uuid(logId),
  topic: (out, { topic }) => out.string(topic),
  log_partition: (out, { partition }) => out.uint32(partition),
  // Uses a hash of the append ids as `orphan_id`, because each row needs a different `orphan_id`.
  orphan_id: (out, { ids }) => out.uuid(uuidV8(createHash('sha256').update(ids.join()).digest())),
  first_offset: (out, { offset }) => out.uint64(offset),
  end_offset: (out, { offset, ids }) => out.uint64(offset + ids.length),
  last_record: (out) => out.string(FOUND_BY_INGEST),
  records: (out, { ids }) => out.uint64(ids.length),
  ids: (out, { ids }) => out.array(ids, (id) => out.uuid(id)),
  first_received_at: (out, { firstMs }) => out.nullable(firstMs, (ms) => out.int64(BigInt(ms))),
  last_received_at: (out, { lastMs }) => out.nullable(lastMs, (ms) => out.int64(BigInt(ms))),
  found_at: (out, { foundMs }) => out.int64(BigInt(foundMs)),
  repaired: (out) => out.uint8(1),
});

const min = (a: number, b: number): number => Math.min(a, b);
const max = (a: number, b: number): number => Math.max(a, b);
