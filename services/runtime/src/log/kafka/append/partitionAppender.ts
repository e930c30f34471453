/**
 * The appends to one partition: one send in flight, and what arrives meanwhile is gathered into the next. More in flight
 * could be lost, repeated or reordered when a broker dies. A sick partition holds little, and is tried at growing
 * intervals, so that the others have what they need.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Unavailable } from '../../../process/errors.ts';
import { Backoff, yieldToEventLoop } from '../../../process/waiting.ts';
import type { Appended, NewRecord } from '../../log.ts';
import type { PartitionWatch } from '../client/partitionHealth.ts';
import type { PartitionBatch } from './partitionProducer.ts';

export interface PartitionAppenderDeps {
  /** Returns the offset of the first record. */
  send(send: PartitionBatch): Promise<number>;
  readonly budget: AppendBudget;
  /** Is told when the partition falls sick, and when it is well again. */
  readonly watch: PartitionWatch;
  pause?(ms: number): Promise<void>;
  /** The topic's name on the cluster. */
  readonly topic: string;
  readonly partition: number;
}

export interface CheckedAppend {
  readonly records: readonly NewRecord[];
  readonly bytes: number;
  /** Room for records in one batch of the topic, as it is known now. */
  readonly maxSendBytes: number;
  /** At this time of the process's own clock its caller is told, and it is not sent any more. Never before that of an earlier append. */
  readonly deadlineMs: number;
}

export class PartitionAppender {
  readonly #deps: PartitionAppenderDeps;
  #queue: Pending[] = [];
  #inFlight: readonly Pending[] = [];
  /** Fires when the first of both is due, or sooner. One timer for all: each append's own would take much of a small one's time. */
  #deadline: NodeJS.Timeout | undefined;
  #pendingBytes = 0;
  /** Its last send failed, or has had no answer for long. */
  #isFailing = false;
  readonly #backoff = new Backoff(FIRST_PAUSE_MS, MAX_PAUSE_MS);
  /** Set while anything waits. */
  #running: Promise<void> | undefined;

  constructor(deps: PartitionAppenderDeps) {
    this.#deps = deps;
  }

  /** Queues before it returns, so that the order of calls is the order of offsets. */
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

  /** Resolves when nothing waits any more. */
  async idle(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // Appends of one turn of the event loop go together, and with them those of requests that came beside the last send's answer.
    for (await yieldToEventLoop(); this.#queue.length > 0; await yieldToEventLoop()) {
      const hasFailed = await this.#send(this.#nextGroup());
      if (hasFailed) await (this.#deps.pause ?? delay)(this.#backoff.next());
    }
    this.#running = undefined;
    clearTimeout(this.#deadline);
    this.#deadline = undefined;
  }

  /** @returns true when the brokers could not take it now. */
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
      // Brokers that refuse it are there.
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

  /** A send under way goes on: cut short, it would cost the partition its producer once more. */
  #rejectExpired(): void {
    this.#deadline = undefined;
    const nowMs = performance.now();
    const isExpired = ({ deadlineMs }: Pending): boolean => deadlineMs <= nowMs;
    const { topic, partition } = this.#deps;
    const unknown = `${topic}/${partition} has not confirmed an append; its outcome is unknown`;
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
    return new Unavailable(`${topic}/${partition} is behind; the append was not appended`, options);
  }

  /** One is always taken: without a try nobody knows when the partition is well again. */
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

/**
 * The room that all partitions share. A partition may hold as much as is still free behind it: one sick partition takes
 * half of the room, and however many are sick, the others have some. Beyond it the brokers are slower than the callers, who are told so.
 */
export class AppendBudget {
  readonly #maxBytes: number;
  #reserved = 0;

  constructor(maxBytes = MAX_TOTAL_BYTES) {
    this.#maxBytes = maxBytes;
  }

  /**
   * One that is larger than the bound is taken when nothing else waits, or it could never be.
   * @param partitionBytes what the partition holds already.
   */
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

/** Longer than a healthy broker takes, its pauses included. */
const FAILING_AFTER_MS = 2000;
/** Waits at a sick partition, at most: its callers are better off elsewhere, and come back. */
const MAX_FAILING_BYTES = 1024 * 1024;
const MAX_FAILING_APPENDS = 1000;
/** About half of what a leader takes to move. */
const RETRY_AFTER_SECONDS = 5;
/** Between a failed send and the next one to the same partition. */
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 2000;

/** More in one send would make small appends wait for large ones without being any faster. */
const MAX_GROUP_BYTES = 4 * 1024 * 1024;

/** To write so many small ones takes some 5 ms, in which nothing else is done. */
const MAX_GROUP_RECORDS = 10_000;

interface Pending extends CheckedAppend {
  resolve(appended: Appended): void;
  reject(error: unknown): void;
}

function totalBytes(group: readonly Pending[]): number {
  return group.reduce((bytes, pending) => bytes + pending.bytes, 0);
}
