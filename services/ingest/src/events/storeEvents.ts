/** Stores the valid events of a request: reserves quota, creates the event ids, and appends one batch per partition. */
import { randomFillSync } from 'node:crypto';
import type { Principal } from '@questlog/runtime/directory/directory';
import type { Log } from '@questlog/runtime/log/log';
import type { OwnCodec } from '@questlog/runtime/registry/registry';
import { freeBytes } from '@questlog/schemas/buffers';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { APPEND_ID_HEADER, TOPICS } from '@questlog/schemas/topics/topics';
import { LOGGED, UNCERTAIN } from '../ledger/core/receivedCounts.ts';
import type { RequestOutcomes } from '../ledger/requestOutcomes.ts';
import type { Limits } from '../limits/limits.ts';
import type { IngestMetrics } from '../metrics.ts';
import {
  type AcceptedBatch,
  type AcceptInput,
  type AssignedDraft,
  accept,
  type CreatedEvent,
  randomBytesFor,
} from './core/accept.ts';
import type { QuotaLedger } from './core/quotaLedger.ts';
import type { OwnAppend, OwnAppends } from './ownAppends.ts';
import { monthOf, type Quotas } from './quotas.ts';

export interface StoreEventsDeps {
  readonly log: Log;
  readonly codec: OwnCodec<EventsAccepted>;
  readonly quotas: Pick<Quotas, 'ledger' | 'ledgerIfOpen'>;
  readonly limits: Pick<Limits, 'acquireEvents' | 'allowsEvents'>;
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

/** Events that have ids and reserved quota. The caller must append the events or release the quota. */
export interface DecidedEvents extends AcceptedBatch {
  readonly ledger: QuotaLedger | undefined;
  /** Events that a sampling switch dropped. These events are not stored, and do not count against the quota. */
  readonly sampledOut: readonly CreatedEvent[];
}

interface EventsToStore
  extends Pick<AcceptInput, 'receivedAt' | 'drafts' | 'idempotency' | 'shape' | 'reportId'> {
  /** Elements that a sampling switch dropped. A dropped element gets an event id for the response, but is not stored. */
  readonly sampledOut?: readonly AssignedDraft[];
}

export async function decideEvents(
  { quotas, random, partitions }: StoreEventsDeps,
  { tenant, project, revision }: Principal,
  toStore: EventsToStore,
): Promise<DecidedEvents> {
  const { drafts, receivedAt, sampledOut = [] } = toStore;
  // Skips the quota if the request has no events, because reading the quota can take long.
  const isEmpty = drafts.length + sampledOut.length === 0;
  const ledger = isEmpty ? undefined : await quotas.ledger(tenant, monthOf(receivedAt));
  const used = ledger?.reserve(drafts.length) ?? 0;
  const acceptOf = (some: readonly AssignedDraft[], remaining: number): AcceptedBatch =>
    accept({
      ...toStore,
      drafts: some,
      tenantId: tenant.id,
      projectId: project.id,
      revision,
      remaining,
      partitions,
      random: random.take(randomBytesFor(some.length)),
    });
  const remaining = (tenant.monthlySoftQuota ?? Number.POSITIVE_INFINITY) - used;
  const sampledOutEvents =
    sampledOut.length === 0 ? [] : acceptOf(sampledOut, remaining - drafts.length).created;
  return { ...acceptOf(drafts, remaining), ledger, sampledOut: sampledOutEvents };
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
