/** Stores events: reserves quota, creates the event ids, and appends one batch per partition. */
import { randomFillSync } from 'node:crypto';
import type { Principal } from '@questlog/runtime/directory/directory';
import type { Log } from '@questlog/runtime/log/log';
import type { OwnCodec } from '@questlog/runtime/registry/registry';
import { freeBytes } from '@questlog/schemas/buffers';
import { partitionFromHome, partitionOf } from '@questlog/schemas/partition';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { APPEND_ID_HEADER, TOPICS } from '@questlog/schemas/topics/topics';
import { millisOf, uuidV8 } from '@questlog/schemas/uuid';
import { LOGGED, UNCERTAIN } from '../ledger/core/receivedCounts.ts';
import type { RequestOutcomes } from '../ledger/requestOutcomes.ts';
import type { Limits } from '../limits/limits.ts';
import type { IngestMetrics } from '../metrics.ts';
import { type AcceptedBatch, type AcceptInput, accept } from './core/accept.ts';
import { type IdParts, NEW, type RequestFields, recordOf, SAMPLED_OUT, writeIds } from './core/eventBytes.ts';
import type { EventColumns } from './core/eventColumns.ts';
import { type Idempotency, keyedAppendId, keyedTails } from './core/keyedIds.ts';
import type { QuotaLedger } from './core/quotaLedger.ts';
import { type RecordPart, type RecordShape, recordName, recordShape } from './core/recordParts.ts';
import type { EventBatch, EventsRequest } from './eventBatch.ts';
import type { OwnAppend, OwnAppends } from './ownAppends.ts';
import { monthOf, type Quotas } from './quotas.ts';

export interface StoreEventsDeps {
  readonly log: Log;
  readonly codec: OwnCodec<EventsAccepted>;
  readonly quotas: Pick<Quotas, 'ledger' | 'ledgerIfOpen'>;
  readonly limits: Pick<Limits, 'acquireEvents'>;
  readonly received: RequestOutcomes;
  readonly ownAppends: OwnAppends;
  readonly random: RandomPool;
  readonly metrics: IngestMetrics;
  readonly partitions: number;
}

/** Provides random bytes. Generates 16 KiB at once, because one call per request would slow down small requests. */
export class RandomPool {
  #pool = Buffer.alloc(0);

  take(bytes: number): Buffer {
    // Allocates a separate buffer, because other code can read the memory of Node's shared buffer pool.
    if (this.#pool.length < bytes)
      this.#pool = randomFillSync(Buffer.allocUnsafeSlow(Math.max(bytes, POOL_BYTES)));
    const taken = this.#pool.subarray(0, bytes);
    this.#pool = this.#pool.subarray(bytes);
    return taken;
  }
}

const POOL_BYTES = 16 * 1024;

/** Returns a promise for the end of the append. The caller can use the arrays, which contain the ids, before the next `await`. */
export function appendBatch(
  deps: StoreEventsDeps,
  batch: EventBatch,
  request: EventsRequest,
  { ledger, receivedAt }: { readonly ledger: QuotaLedger | undefined; readonly receivedAt: number },
): Promise<void> {
  const { principal, idempotency, body } = request;
  const { tenant, project, revision } = principal;
  batch.columns.setMissingTimes(receivedAt);
  const shape = shapeOf(batch, request);
  const records = batch.assignRecords(shape);
  const names =
    idempotency === null
      ? randomNames(deps, batch.columns.count, records.length, receivedAt)
      : keyedNames(project.id, idempotency, batch.columns, shape);
  writeIds(batch, names);
  const count = batch.countOf(NEW | SAMPLED_OUT, NEW);
  const used = ledger?.reserve(count) ?? 0;
  const remaining = quotaOf(tenant) - used;
  batch.flagOverQuota(remaining, count);
  const fields = { tenantId: tenant.id, projectId: project.id, receivedAt, revision, idempotency, body };
  const overQuota = Math.min(count, Math.max(0, count - remaining));
  return appendRecords(deps, tenant.id, appendsOf(deps, batch, fields, records, names), {
    ledger,
    overQuota,
  });
}

function quotaOf(tenant: Principal['tenant']): number {
  return tenant.monthlySoftQuota ?? Number.POSITIVE_INFINITY;
}

/**
 * If sampling dropped events of a request with a key, writes one record per event. After a change of the sampling rate, a retry
 * can then add the dropped events and does not repeat the stored events.
 */
function shapeOf(batch: EventBatch, request: EventsRequest): RecordShape {
  const isSampled = request.idempotency !== null && batch.countOf(SAMPLED_OUT | NEW, SAMPLED_OUT | NEW) > 0;
  return isSampled ? 'event' : recordShape(request.principal, request);
}

function appendsOf(
  { codec, partitions }: StoreEventsDeps,
  batch: EventBatch,
  fields: RequestFields,
  parts: readonly RecordPart[],
  names: Names,
): EventsAppend[] {
  const { tenantId, receivedAt } = fields;
  const home = partitionOf(tenantId, 0, partitions);
  const records = parts.map((part, position) => {
    const { first, events, lane } = part;
    const partition = partitionFromHome(home, lane, partitions);
    return { first, events, appendId: names.appendId(part, position), receivedAt, partition };
  });
  return [...Map.groupBy(records, ({ partition }) => partition)].map(([partition, some]) => ({
    partition,
    records: some,
    encode: () => some.map((one) => recordOf(batch, fields, codec.schemaId, one)),
  }));
}

/** Values from which the ids of the events and records are created. */
interface Names extends IdParts {
  appendId(part: RecordPart, position: number): string;
}

function randomNames(
  { random }: Pick<StoreEventsDeps, 'random'>,
  events: number,
  records: number,
  receivedAt: number,
): Names {
  const bytes = random.take(events * 8 + records * 16);
  const appendId: Names['appendId'] = (_, position) => uuidV8(bytes, events * 8 + position * 16);
  return { idMillis: receivedAt, tails: bytes, appendId };
}

function keyedNames(
  projectId: string,
  idempotency: Idempotency,
  { index, count }: EventColumns,
  shape: RecordShape,
): Names {
  return {
    idMillis: millisOf(idempotency.key),
    tails: keyedTails(projectId, idempotency, index.subarray(0, count)),
    appendId: ({ lane, sessionId, first }) =>
      keyedAppendId(projectId, idempotency, recordName(shape, { index: index[first] ?? 0, lane, sessionId })),
  };
}

/** Inline events of a report that have ids and reserved quota. The caller must append the events or release the quota. */
export interface DecidedEvents extends AcceptedBatch {
  readonly ledger: QuotaLedger | undefined;
}

export async function decideEvents(
  { quotas, random, partitions }: StoreEventsDeps,
  { tenant, project, revision }: Principal,
  toStore: Pick<AcceptInput, 'receivedAt' | 'drafts' | 'reportId'>,
): Promise<DecidedEvents> {
  const { drafts, receivedAt } = toStore;
  // Skips the quota if the request has no events, because reading the quota can take long.
  const ledger = drafts.length === 0 ? undefined : await quotas.ledger(tenant, monthOf(receivedAt));
  const used = ledger?.reserve(drafts.length) ?? 0;
  const accepted = accept({
    ...toStore,
    tenantId: tenant.id,
    projectId: project.id,
    revision,
    remaining: quotaOf(tenant) - used,
    partitions,
    random: random.take(drafts.length * 8),
  });
  return { ...accepted, ledger };
}

export interface EventsAppend {
  readonly partition: number;
  readonly records: readonly OwnAppend[];
  /** Returns the encoded values of the records. The caller must call this function exactly once, before its first `await`. */
  encode(): readonly Buffer[];
}

export async function appendEvents(
  deps: StoreEventsDeps,
  { tenant }: Principal,
  { created, appends, ledger }: DecidedEvents,
): Promise<void> {
  const encoded = appends.map(({ partition, messages }) => ({
    partition,
    records: messages.map(({ events, ...message }) => ({ ...message, events: events.length })),
    encode: () => messages.map((message) => deps.codec.encode(message)),
  }));
  const overQuota = created.filter((one) => one.overQuota).length;
  await appendRecords(deps, tenant.id, encoded, { ledger, overQuota });
}

/** Appends one batch per partition, and waits for all appends. If one append fails, other batches may be stored. */
export async function appendRecords(
  deps: StoreEventsDeps,
  tenantId: string,
  appends: readonly EventsAppend[],
  { ledger, overQuota }: { readonly ledger: QuotaLedger | undefined; readonly overQuota: number },
): Promise<void> {
  let appendedEvents = 0;
  let failure: unknown;
  const recordReceived = (records: readonly OwnAppend[], what: string): void => {
    for (const { receivedAt: receivedAtMs, events } of records)
      deps.received.push({ tenantId, outcome: what, accepted: { receivedAtMs, events } });
  };
  // Returns the error instead of throwing it. No code awaits the promise yet, so Node would report an unhandled rejection.
  const appendTo = async ({ partition, records, encode }: EventsAppend): Promise<void> => {
    try {
      const values = encode().map((value, i) => ({
        key: tenantId,
        value,
        headers: { [APPEND_ID_HEADER]: records[i]?.appendId ?? '' },
      }));
      const { baseOffset } = await deps.log.append(TOPICS.events, partition, values);
      for (const { value } of values) freeBytes(value);
      deps.ownAppends.confirmed(partition, baseOffset, records);
      records.forEach(({ events }, i) => {
        ledger?.confirm(partition, baseOffset + i, events);
        appendedEvents += events;
      });
      recordReceived(records, LOGGED);
    } catch (error) {
      for (const { events } of records) ledger?.release(events);
      recordReceived(records, UNCERTAIN);
      failure ??= error;
    }
  };
  const appending = appends.map(appendTo);
  for (const one of appending) await one;
  if (failure !== undefined) throw failure;
  deps.metrics.accepted.inc(appendedEvents);
  deps.metrics.overQuota.inc(overQuota);
}

export function releaseEvents({ created, ledger }: DecidedEvents): void {
  ledger?.release(created.length);
}
