/**
 * Appends records to one Kafka partition, with one send in flight. All appends that arrive during a send are combined in the
 * next send. With several sends in flight, a broker failure could lose, duplicate, or reorder records.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Unavailable } from '../../../process/errors.ts';
import type { BoundedResource } from '../../../process/metrics.ts';
import { Backoff, yieldToEventLoop } from '../../../process/waiting.ts';
import type { Appended, NewRecord } from '../../log.ts';
import type { PartitionWatch } from '../client/partitionHealth.ts';
import type { PartitionBatch } from './partitionProducer.ts';

export interface PartitionAppenderDeps {
  send(batch: PartitionBatch): Promise<number>;
  readonly budget: AppendBudget;
  readonly watch: PartitionWatch;
  pause?(ms: number): Promise<void>;
  /** Name of the topic with the configured prefix. */
  readonly topic: string;
  readonly partition: number;
}

export interface CheckedAppend {
  readonly records: readonly NewRecord[];
  readonly bytes: number;
  readonly maxSendBytes: number;
  /** Time at which a pending append is rejected with an error. The oldest append in the queue has the earliest deadline. */
  readonly deadlineMs: number;
}

export class PartitionAppender {
  readonly #deps: PartitionAppenderDeps;
  #queue: Pending[] = [];
  #inFlight: readonly Pending[] = [];
  /** Timer for the earliest deadline of all pending appends. A timer for each append would be expensive. */
  #deadline: NodeJS.Timeout | undefined;
  #pendingBytes = 0;
  /** True if the latest send failed or the current send has had no response for `FAILING_AFTER_MS`. */
  #isFailing = false;
  readonly #backoff = new Backoff(FIRST_PAUSE_MS, MAX_PAUSE_MS);
  #running: Promise<void> | undefined;

  constructor(deps: PartitionAppenderDeps) {
    this.#deps = deps;
  }

  /** Adds an append to the queue. The call is synchronous, so that offsets are in the order of the calls. */
  append(append: CheckedAppend): Promise<Appended> {
    const { budget } = this.#deps;
    if (this.#isFailing && !this.#mayQueueWhileFailing(append.bytes))
      return Promise.reject(this.#notAppended());
    if (!budget.reserve(append.bytes, this.#pendingBytes)) return Promise.reject(this.#notAppended());
    this.#pendingBytes += append.bytes;
    this.#scheduleDeadline(append.deadlineMs);
    this.#running ??= this.#run();
    return new Promise((resolve, reject) => this.#queue.push({ ...append, resolve, reject }));
  }

  async idle(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // All appends of one turn of the event loop are sent together.
    for (await yieldToEventLoop(); this.#queue.length > 0; await yieldToEventLoop()) {
      const hasFailed = await this.#send(this.#nextGroup());
      if (hasFailed) await (this.#deps.pause ?? delay)(this.#backoff.next());
    }
    this.#running = undefined;
    clearTimeout(this.#deadline);
    this.#deadline = undefined;
  }

  async #send(group: readonly Pending[]): Promise<boolean> {
    const { send, topic, partition } = this.#deps;
    const records = group.flatMap((pending) => pending.records);
    const bytes = totalBytes(group);
    this.#inFlight = group;
    const slowTimer = setTimeout(() => this.#failed(new Error('no answer yet')), FAILING_AFTER_MS);
    try {
      let baseOffset = await send({ topic, partition, records });
      this.#recovered();
      for (const pending of group) {
        pending.resolve({ baseOffset });
        baseOffset += pending.records.length;
      }
      return false;
    } catch (error) {
      for (const pending of group) pending.reject(error);
      const isUnavailable = error instanceof Unavailable;
      // Errors other than `Unavailable` are responses of a broker, so the partition is available.
      if (isUnavailable) this.#failed(error);
      else this.#recovered();
      return isUnavailable;
    } finally {
      clearTimeout(slowTimer);
      this.#inFlight = [];
      this.#release(bytes);
    }
  }

  #scheduleDeadline(deadlineMs: number): void {
    this.#deadline ??= setTimeout(() => this.#rejectExpired(), Math.max(0, deadlineMs - performance.now()));
  }

  /** Rejects appends after their deadline. A send in flight continues, because an aborted send needs a new producer id. */
  #rejectExpired(): void {
    this.#deadline = undefined;
    const nowMs = performance.now();
    const isExpired = ({ deadlineMs }: Pending): boolean => deadlineMs <= nowMs;
    const { topic, partition } = this.#deps;
    const unknown = `${topic}/${partition} did not confirm an append in time; the outcome is unknown`;
    for (const pending of this.#inFlight.filter(isExpired)) pending.reject(new Unavailable(unknown));
    for (const pending of this.#queue.filter(isExpired)) {
      this.#release(pending.bytes);
      pending.reject(this.#notAppended());
    }
    this.#inFlight = this.#inFlight.filter((pending) => !isExpired(pending));
    this.#queue = this.#queue.filter((pending) => !isExpired(pending));
    const [next] = [...this.#inFlight, ...this.#queue];
    if (next !== undefined) this.#scheduleDeadline(next.deadlineMs);
  }

  #notAppended(): Unavailable {
    const { topic, partition } = this.#deps;
    const options = this.#isFailing ? { retryAfterS: RETRY_AFTER_SECONDS } : {};
    return new Unavailable(`${topic}/${partition} is not keeping up; nothing was appended`, options);
  }

  /**
   * Returns true if a failing partition can queue the append. An empty queue accepts one append. The result of this append
   * shows whether the partition works again.
   */
  #mayQueueWhileFailing(bytes: number): boolean {
    if (this.#pendingBytes === 0) return true;
    return this.#pendingBytes + bytes <= MAX_FAILING_BYTES && this.#queue.length < MAX_FAILING_APPENDS;
  }

  #failed(cause: Error): void {
    this.#isFailing = true;
    this.#deps.watch.failed(cause);
  }

  #recovered(): void {
    if (!this.#isFailing) return;
    this.#isFailing = false;
    this.#backoff.reset();
    this.#deps.watch.recovered();
  }

  #release(bytes: number): void {
    this.#pendingBytes -= bytes;
    this.#deps.budget.release(bytes);
  }

  #nextGroup(): Pending[] {
    let [bytes, records] = [0, 0];
    const firstExcluded = this.#queue.findIndex((pending, index) => {
      bytes += pending.bytes;
      records += pending.records.length;
      const maxBytes = Math.min(pending.maxSendBytes, MAX_GROUP_BYTES);
      return index > 0 && (bytes > maxBytes || records > MAX_GROUP_RECORDS);
    });
    return this.#queue.splice(0, firstExcluded === -1 ? this.#queue.length : firstExcluded);
  }
}

/** Memory budget for pending appends. The appends of one partition can use at most half of the budget. */
export class AppendBudget {
  readonly #maxBytes: number;
  #reserved = 0;

  constructor(maxBytes = MAX_TOTAL_BYTES) {
    this.#maxBytes = maxBytes;
  }

  get asResource(): BoundedResource {
    return { resource: 'log_append_bytes', limit: this.#maxBytes, used: () => this.#reserved };
  }

  /** Returns false if the append does not fit into the budget. If no append is pending, an append of any size is accepted. */
  reserve(bytes: number, partitionBytes: number): boolean {
    if (this.#reserved > 0 && partitionBytes + bytes > this.#maxBytes - this.#reserved) return false;
    this.#reserved += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#reserved -= bytes;
  }
}

const MAX_TOTAL_BYTES = 64 * 1024 * 1024;

const FAILING_AFTER_MS = 2000;
const MAX_FAILING_BYTES = 1024 * 1024;
const MAX_FAILING_APPENDS = 1000;
/** Value of `Retry-After` for rejected appends: about half the time of a leader election. */
const RETRY_AFTER_SECONDS = 5;
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 2000;

/** Maximum bytes of one send. Larger sends give no higher throughput and delay small appends. */
const MAX_GROUP_BYTES = 4 * 1024 * 1024;

/** Maximum number of records in one send. Encoding 10,000 small records blocks the event loop for about 5 ms. */
const MAX_GROUP_RECORDS = 10_000;

interface Pending extends CheckedAppend {
  resolve(appended: Appended): void;
  reject(error: unknown): void;
}

function totalBytes(group: readonly Pending[]): number {
  return group.reduce((bytes, pending) => bytes + pending.bytes, 0);
}
