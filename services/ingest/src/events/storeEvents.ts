/** From drafts to events in the log: the quota's flags, ids, one append a partition. What everything that stores events shares. */
import { randomFillSync } from 'node:crypto';
import type { Principal } from '@questlog/runtime/directory/directory';
import type { Log } from '@questlog/runtime/log/log';
import type { Codec } from '@questlog/runtime/registry/registry';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { APPEND_ID_HEADER, TOPICS } from '@questlog/schemas/topics/topics';
import { LOGGED, UNCERTAIN } from '../ledger/core/receivedCounts.ts';
import type { Received } from '../ledger/received.ts';
import type { Limits } from '../limits/limits.ts';
import type { IngestMetrics } from '../metrics.ts';
import {
  type AcceptedBatch,
  type AcceptInput,
  accept,
  type CreatedEvent,
  type PlacedDraft,
  randomBytesFor,
} from './core/accept.ts';
import type { QuotaLedger } from './core/quotaLedger.ts';
import type { OwnAppends } from './ownAppends.ts';
import { monthOf, type Quotas } from './quotas.ts';

export interface StoreEventsDeps {
  readonly log: Log;
  readonly codec: Codec<EventsAccepted>;
  readonly quotas: Quotas;
  readonly limits: Pick<Limits, 'takeEvents'>;
  readonly received: Received;
  readonly own: OwnAppends;
  readonly random: RandomPool;
  readonly metrics: IngestMetrics;
  /** Partitions of the events topic. */
  readonly partitions: number;
}

/** Random bytes, drawn many at once, since each drawing costs a small request much of its time, and each given out once. */
export class RandomPool {
  #pool = Buffer.alloc(0);

  take(bytes: number): Buffer {
    // In memory of their own: what is not given out yet is within nobody's reach through another buffer.
    if (this.#pool.length < bytes)
      this.#pool = randomFillSync(Buffer.allocUnsafeSlow(Math.max(bytes, POOL_BYTES)));
    const taken = this.#pool.subarray(0, bytes);
    this.#pool = this.#pool.subarray(bytes);
    return taken;
  }
}

const POOL_BYTES = 16 * 1024;

/** Events that are decided and reserved in the quota; they are then appended or released. */
export interface DecidedEvents extends AcceptedBatch {
  readonly ledger: QuotaLedger | undefined;
  /** In no append, and not counted. */
  readonly sampledOut: readonly CreatedEvent[];
}

interface ToStore
  extends Pick<AcceptInput, 'receivedAt' | 'drafts' | 'idempotency' | 'isSplit' | 'reportId'> {
  /** Are answered as if they were stored behind the others. */
  readonly sampledOut?: readonly PlacedDraft[];
}

export async function decideEvents(
  { quotas, random, partitions }: StoreEventsDeps,
  { tenant, project, revision }: Principal,
  toStore: ToStore,
): Promise<DecidedEvents> {
  const { drafts, receivedAt, sampledOut = [] } = toStore;
  // A report without events counts nothing, so it waits for no ledger.
  const isEmpty = drafts.length + sampledOut.length === 0;
  const ledger = isEmpty ? undefined : await quotas.ledger(tenant, monthOf(receivedAt));
  const used = ledger?.reserve(drafts.length) ?? 0;
  const acceptOf = (some: readonly PlacedDraft[], remaining: number): AcceptedBatch =>
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
  const told = sampledOut.length === 0 ? [] : acceptOf(sampledOut, remaining - drafts.length).created;
  return { ...acceptOf(drafts, remaining), ledger, sampledOut: told };
}

/** One append a partition; resolves after all of them. Where one fails, the others may still be stored. */
export async function appendEvents(
  deps: StoreEventsDeps,
  { tenant }: Principal,
  { created, appends, ledger }: DecidedEvents,
): Promise<void> {
  const note = (messages: readonly EventsAccepted[], what: string): void => {
    for (const { receivedAt, events } of messages) {
      const of = { receivedAtMs: receivedAt, events: events.length };
      deps.received.push({ tenantId: tenant.id, what, of });
    }
  };
  const outcomes = await Promise.allSettled(
    appends.map(async ({ partition, messages }) => {
      try {
        const records = messages.map((message) => ({
          key: tenant.id,
          value: deps.codec.encode(message),
          headers: { [APPEND_ID_HEADER]: message.appendId },
        }));
        const { baseOffset } = await deps.log.append(TOPICS.events, partition, records);
        deps.own.confirmed(partition, baseOffset, messages);
        messages.forEach((message, i) => {
          ledger?.confirm(partition, baseOffset + i, message.events.length);
        });
        note(messages, LOGGED);
      } catch (error) {
        for (const message of messages) ledger?.release(message.events.length);
        note(messages, UNCERTAIN);
        throw error;
      }
    }),
  );
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  deps.metrics.accepted.inc(created.length);
  deps.metrics.overQuota.inc(created.filter(({ overQuota }) => overQuota).length);
}

/** They are not appended after all. */
export function releaseEvents({ created, ledger }: DecidedEvents): void {
  ledger?.release(created.length);
}
