/** Detects appends of this process that the log lost in a truncation before the projector read them. */
import { createHash } from 'node:crypto';
import { RowBinaryWriter } from '@questlog/runtime/clickhouse/rowBinary';
import { chunksOf, type Store } from '@questlog/runtime/clickhouse/store';
import type { TruncatedRange } from '@questlog/runtime/log/truncation/truncatedPartitions';
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
  const row = rowOf(log.id, truncated, missing, { firstMs, lastMs, foundMs: clock.now() });
  await retry(() => store.insert(row), retryOptions);
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

function rowOf(
  logId: string,
  { topic, partition, offset }: TruncatedRange,
  missing: readonly OwnAppend[],
  { firstMs, lastMs, foundMs }: { firstMs: number; lastMs: number; foundMs: number },
) {
  const ids = missing.map(({ appendId }) => appendId);
  const out = new RowBinaryWriter();
  out.uuid(logId);
  out.string(topic);
  out.uint32(partition);
  // Uses a hash of the append ids as `orphan_id`, because each row needs a different `orphan_id`.
  out.uuid(uuidV8(createHash('sha256').update(ids.join()).digest()));
  out.uint64(offset);
  out.uint64(offset + missing.length);
  out.string(FOUND_BY_INGEST);
  out.uint64(missing.length);
  out.array(ids, (id) => out.uuid(id));
  for (const ms of [firstMs, lastMs]) out.nullable(ms, (one) => out.int64(BigInt(one)));
  out.int64(BigInt(foundMs));
  out.uint8(1);
  return { table: 'truncations', columns: COLUMNS, rows: out.written() };
}

const COLUMNS =
  'log_id topic log_partition orphan_id first_offset end_offset last_record records ids first_received_at last_received_at found_at repaired'.split(
    ' ',
  );

const min = (a: number, b: number): number => Math.min(a, b);
const max = (a: number, b: number): number => Math.max(a, b);
