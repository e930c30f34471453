/**
 * Sends new records of the events topic to all subscribers of the live tail. Decodes a limited number of bytes per second and
 * skips the other records, so that live tails do not slow ingest.
 */
import type { Batch, Log, LogRecord, Tail } from '@questlog/runtime/log/log';
import { Invalid, Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { settledSoon } from '@questlog/runtime/process/waiting';
import type { Codec } from '@questlog/runtime/registry/registry';
import type { AcceptedEvent } from '@questlog/schemas/topics/eventsAccepted';
import type { EventsRecord } from '@questlog/schemas/topics/eventsRecord';
import { TOPICS } from '@questlog/schemas/topics/topics';

export interface Subscriber {
  /** Id of the tenant whose events the subscriber receives, or null for the events of all tenants. */
  readonly tenantId: string | null;
  readonly parsesPayloads: boolean;
  receive(record: EventsRecord, at: EventAt): void;
  /** Counts a record that the live tail did not decode for this subscriber. */
  skip(): void;
  end(): void;
}

export interface EventAt {
  readonly partition: number;
  readonly offset: number;
}

export interface LiveTailDependencies {
  readonly log: Log;
  readonly codec: Codec<EventsRecord>;
  readonly logger: Logger;
  readonly nowMs: () => number;
}

export const MAX_SUBSCRIBERS = 32;
/**
 * Maximum bytes of records that the live tail decodes in one time window (`BUDGET_WINDOW_MS`). Filters that parse payloads have
 * a separate limit of the same size. Decoding at the maximum takes about 2 % of a thread.
 */
const MAX_BYTES_PER_WINDOW = 64 * 1024;
const BUDGET_WINDOW_MS = 100;

export class LiveTail {
  readonly #deps: LiveTailDependencies;
  readonly #subscribers = new Set<Subscriber>();
  readonly #decoding: Budget;
  readonly #parsing: Budget;
  #tail: Promise<Tail> | undefined;
  #isClosed = false;

  constructor(deps: LiveTailDependencies) {
    this.#deps = deps;
    this.#decoding = new Budget(deps.nowMs);
    this.#parsing = new Budget(deps.nowMs);
  }

  /** @throws Unavailable if there are too many subscribers, if the process stops, or if the log cannot be read. */
  async subscribe(subscriber: Subscriber): Promise<void> {
    if (this.#isClosed) throw new Unavailable('this process is stopping');
    if (this.#subscribers.size >= MAX_SUBSCRIBERS) {
      throw new Unavailable(`this process already has ${MAX_SUBSCRIBERS} live tails, which is the maximum`);
    }
    this.#subscribers.add(subscriber);
    this.#tail ??= this.#open();
    try {
      await this.#tail;
    } catch (error) {
      this.unsubscribe(subscriber);
      throw error;
    }
  }

  unsubscribe(subscriber: Subscriber): void {
    this.#subscribers.delete(subscriber);
    if (this.#subscribers.size === 0) this.#closeTail();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const subscriber of this.#subscribers) subscriber.end();
    this.#subscribers.clear();
    await settledSoon(this.#closeTail());
  }

  async #open(): Promise<Tail> {
    const { log, logger } = this.#deps;
    const from = await log.endOffsets(TOPICS.events);
    const tail = await log.tail({ topic: TOPICS.events, from, onBatch: (batch) => this.#receive(batch) });
    tail.failed.catch((error: unknown) => {
      logger.error('live_tail_failed', error, { bug: !(error instanceof Unavailable) });
      // Ends the streams of all subscribers. The first subscriber that reconnects opens a new tail of the log.
      void this.#closeTail();
      for (const subscriber of this.#subscribers) subscriber.end();
    });
    return tail;
  }

  async #closeTail(): Promise<void> {
    const tail = this.#tail;
    this.#tail = undefined;
    await tail?.then((open) => open.close()).catch(() => {});
  }

  async #receive({ partition, records }: Batch): Promise<void> {
    for (const record of records) {
      const subscribers = [...this.#subscribers].filter(
        ({ tenantId }) => tenantId === null || tenantId === record.key,
      );
      if (subscribers.length === 0) continue;
      const bytes = record.value?.length ?? 0;
      if (!this.#decoding.spend(bytes)) {
        for (const subscriber of subscribers) subscriber.skip();
        continue;
      }
      const accepted = await this.#decoded(record);
      if (accepted === undefined) continue;
      for (const subscriber of subscribers) {
        if (subscriber.parsesPayloads && !this.#parsing.spend(bytes)) {
          subscriber.skip();
          continue;
        }
        subscriber.receive(accepted, { partition, offset: record.offset });
        // Moves a served subscriber to the end of the list. Otherwise, the first subscribers would always use up the shared
        // byte limit.
        if (subscriber.parsesPayloads && this.#subscribers.delete(subscriber))
          this.#subscribers.add(subscriber);
      }
    }
  }

  /** Returns undefined if the schema is unavailable or the record is invalid. The projector handles invalid records. */
  async #decoded({ value }: LogRecord): Promise<EventsRecord | undefined> {
    try {
      return await this.#deps.codec.decode(value);
    } catch (error) {
      if (error instanceof Invalid || error instanceof Unavailable) return undefined;
      throw error;
    }
  }
}

class Budget {
  readonly #nowMs: () => number;
  #window = 0;
  #spentBytes = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /**
   * Returns false if the byte limit of the current time window is used up. Bytes above the limit reduce the limits of the next
   * windows.
   */
  spend(bytes: number): boolean {
    const window = Math.floor(this.#nowMs() / BUDGET_WINDOW_MS);
    this.#spentBytes = Math.max(0, this.#spentBytes - (window - this.#window) * MAX_BYTES_PER_WINDOW);
    this.#window = window;
    if (this.#spentBytes >= MAX_BYTES_PER_WINDOW) return false;
    this.#spentBytes += bytes;
    return true;
  }
}

export interface TailFilter {
  readonly projectId: string | null;
  readonly eventType: string | null;
  readonly sessionIds: ReadonlySet<string> | null;
  readonly where: { readonly path: readonly string[]; readonly value: string } | null;
}

export function matches(filter: TailFilter, event: AcceptedEvent): boolean {
  const { eventType, sessionIds, where } = filter;
  if (eventType !== null && event.eventType !== eventType) return false;
  if (sessionIds !== null && (event.sessionId === null || !sessionIds.has(event.sessionId))) return false;
  return where === null || textAt(event.payload, where.path) === where.value;
}

function textAt(payload: Buffer, path: readonly string[]): string | undefined {
  let value: unknown;
  try {
    value = JSON.parse(payload.toString());
  } catch {
    return undefined;
  }
  for (const name of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = Reflect.get(value, name);
  }
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
