/**
 * The appends to one partition: one send in flight, and what arrives meanwhile is gathered into the next. More in flight
 * could be lost, repeated or reordered when a broker dies. A sick partition holds little, and is tried at growing
 * intervals, so that the others have what they need.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Unavailable } from '../../../process/errors.ts';
import { Backoff, nextTurn } from '../../../process/waiting.ts';
import type { Appended, NewRecord } from '../../log.ts';
import type { PartitionWatch } from '../client/sickPartitions.ts';
import type { Send } from './partitionProducer.ts';

export interface PartitionAppenderDeps {
  /** Returns the offset of the first record. */
  send(send: Send): Promise<number>;
  readonly waiting: WaitingBytes;
  /** Is told when the partition falls sick, and when it is well again. */
  readonly watch: PartitionWatch;
  rest?(ms: number): Promise<void>;
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
  #underWay: readonly Pending[] = [];
  /** Fires when the first of both is due, or sooner. One timer for all: each append's own would take much of a small one's time. */
  #deadline: NodeJS.Timeout | undefined;
  #heldBytes = 0;
  /** Its last send failed, or has had no answer for long. */
  #isSick = false;
  readonly #backoff = new Backoff(FIRST_REST_MS, MAX_REST_MS);
  /** Set while anything waits. */
  #running: Promise<void> | undefined;

  constructor(deps: PartitionAppenderDeps) {
    this.#deps = deps;
  }

  /** Queues before it returns, so that the order of calls is the order of offsets. */
  append(append: CheckedAppend): Promise<Appended> {
    const { waiting } = this.#deps;
    if (this.#isSick && !this.#mayWaitWhileSick(append.bytes)) return Promise.reject(this.#notAppended());
    if (!waiting.take(append.bytes, this.#heldBytes)) return Promise.reject(this.#notAppended());
    this.#heldBytes += append.bytes;
    this.#giveUpAt(append.deadlineMs);
    this.#running ??= this.#run();
    return new Promise((resolve, reject) => this.#queue.push({ ...append, resolve, reject }));
  }

  /** Resolves when nothing waits any more. */
  async idle(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // Appends of one turn of the event loop go together, and with them those of requests that came beside the last send's answer.
    for (await nextTurn(); this.#queue.length > 0; await nextTurn()) {
      const hasFailed = await this.#send(this.#takeGroup());
      if (hasFailed) await (this.#deps.rest ?? delay)(this.#backoff.next());
    }
    this.#running = undefined;
    clearTimeout(this.#deadline);
    this.#deadline = undefined;
  }

  /** @returns true when the brokers could not take it now. */
  async #send(group: readonly Pending[]): Promise<boolean> {
    const { send, topic, partition } = this.#deps;
    const records = group.flatMap((pending) => pending.records);
    const bytes = sum(group);
    this.#underWay = group;
    const late = setTimeout(() => this.#failed(new Error('no answer yet')), SICK_AFTER_MS);
    try {
      let baseOffset = await send({ topic, partition, records });
      this.#passed();
      for (const pending of group) {
        pending.resolve({ baseOffset });
        baseOffset += pending.records.length;
      }
      return false;
    } catch (error) {
      for (const pending of group) pending.reject(error);
      const isAway = error instanceof Unavailable;
      // Brokers that refuse it are there.
      if (isAway) this.#failed(error);
      else this.#passed();
      return isAway;
    } finally {
      clearTimeout(late);
      this.#underWay = [];
      this.#release(bytes);
    }
  }

  #giveUpAt(deadlineMs: number): void {
    this.#deadline ??= setTimeout(() => this.#giveUpLate(), Math.max(0, deadlineMs - performance.now()));
  }

  /** A send under way goes on: cut short, it would cost the partition its producer once more. */
  #giveUpLate(): void {
    this.#deadline = undefined;
    const nowMs = performance.now();
    const isLate = ({ deadlineMs }: Pending): boolean => deadlineMs <= nowMs;
    const { topic, partition } = this.#deps;
    const unknown = `${topic}/${partition} has not confirmed an append; its outcome is unknown`;
    for (const pending of this.#underWay.filter(isLate)) pending.reject(new Unavailable(unknown));
    for (const pending of this.#queue.filter(isLate)) {
      this.#release(pending.bytes);
      pending.reject(this.#notAppended());
    }
    this.#underWay = this.#underWay.filter((pending) => !isLate(pending));
    this.#queue = this.#queue.filter((pending) => !isLate(pending));
    const [next] = [...this.#underWay, ...this.#queue];
    if (next !== undefined) this.#giveUpAt(next.deadlineMs);
  }

  #notAppended(): Unavailable {
    const { topic, partition } = this.#deps;
    const options = this.#isSick ? { retryAfterS: SICK_RETRY_AFTER_S } : {};
    return new Unavailable(`${topic}/${partition} is behind; the append was not appended`, options);
  }

  /** One is always taken: without a try nobody knows when the partition is well again. */
  #mayWaitWhileSick(bytes: number): boolean {
    if (this.#heldBytes === 0) return true;
    return this.#heldBytes + bytes <= MAX_SICK_BYTES && this.#queue.length < MAX_SICK_APPENDS;
  }

  #failed(cause: Error): void {
    this.#isSick = true;
    this.#deps.watch.failed(cause);
  }

  #passed(): void {
    if (!this.#isSick) return;
    this.#isSick = false;
    this.#backoff.reset();
    this.#deps.watch.passed();
  }

  #release(bytes: number): void {
    this.#heldBytes -= bytes;
    this.#deps.waiting.release(bytes);
  }

  #takeGroup(): Pending[] {
    let [bytes, records] = [0, 0];
    const firstTooMuch = this.#queue.findIndex((pending, index) => {
      bytes += pending.bytes;
      records += pending.records.length;
      const maxBytes = Math.min(pending.maxSendBytes, MAX_GATHERED_BYTES);
      return index > 0 && (bytes > maxBytes || records > MAX_GATHERED_RECORDS);
    });
    return this.#queue.splice(0, firstTooMuch === -1 ? this.#queue.length : firstTooMuch);
  }
}

/**
 * The room that all partitions share. A partition may hold as much as is still free behind it: one sick partition takes
 * half of the room, and however many are sick, the others have some. Beyond it the brokers are slower than the callers, who are told so.
 */
export class WaitingBytes {
  readonly #max: number;
  #taken = 0;

  constructor(max = MAX_WAITING_BYTES) {
    this.#max = max;
  }

  /**
   * One that is larger than the bound is taken when nothing else waits, or it could never be.
   * @param held what the partition holds already.
   */
  take(bytes: number, held: number): boolean {
    if (this.#taken > 0 && held + bytes > this.#max - this.#taken) return false;
    this.#taken += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#taken -= bytes;
  }
}

const MAX_WAITING_BYTES = 64 * 1024 * 1024;

/** Longer than a healthy broker takes, its pauses included. */
const SICK_AFTER_MS = 2000;
/** Waits at a sick partition, at most: its callers are better off elsewhere, and come back. */
const MAX_SICK_BYTES = 1024 * 1024;
const MAX_SICK_APPENDS = 1000;
/** About half of what a leader takes to move. */
const SICK_RETRY_AFTER_S = 5;
/** Between a failed send and the next one to the same partition. */
const FIRST_REST_MS = 100;
const MAX_REST_MS = 2000;

/** More in one send would make small appends wait for large ones without being any faster. */
const MAX_GATHERED_BYTES = 4 * 1024 * 1024;

/** To write so many small ones takes some 5 ms, in which nothing else is done. */
const MAX_GATHERED_RECORDS = 10_000;

interface Pending extends CheckedAppend {
  resolve(appended: Appended): void;
  reject(error: unknown): void;
}

function sum(group: readonly Pending[]): number {
  return group.reduce((bytes, pending) => bytes + pending.bytes, 0);
}
