/**
 * The appends to one partition: one send in flight, and what arrives meanwhile is gathered into the next. With more in
 * flight kafkajs loses, repeats and reorders records when a broker dies.
 */
import { Unavailable } from '../../../process/errors.ts';
import { nextTurn } from '../../doorbell.ts';
import type { Appended, NewRecord } from '../../log.ts';
import type { Send } from './producers.ts';

export interface PartitionAppenderDeps {
  /** Returns the offset of the first record. */
  send(send: Send): Promise<number>;
  readonly waiting: WaitingBytes;
  /** The topic's name on the cluster. */
  readonly topic: string;
  readonly partition: number;
}

export interface CheckedAppend {
  readonly records: readonly NewRecord[];
  readonly bytes: number;
  /** Room for records in one batch of the topic, as it is known now. */
  readonly maxSendBytes: number;
}

export class PartitionAppender {
  readonly #deps: PartitionAppenderDeps;
  #queue: Pending[] = [];
  /** Under way while anything waits. */
  #running: Promise<void> | undefined;

  constructor(deps: PartitionAppenderDeps) {
    this.#deps = deps;
  }

  /** Queues before it returns, so that the order of calls is the order of offsets. */
  append(append: CheckedAppend): Promise<Appended> {
    const { waiting, topic, partition } = this.#deps;
    if (!waiting.take(append.bytes)) {
      return Promise.reject(new Unavailable(`${topic}/${partition} is behind; the append was not appended`));
    }
    const { promise, resolve, reject } = Promise.withResolvers<Appended>();
    this.#queue.push({ ...append, resolve, reject });
    this.#running ??= this.#run();
    return promise;
  }

  /** Resolves when nothing waits any more. */
  async idle(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // What else arrives in this turn of the event loop goes together.
    await nextTurn();
    while (this.#queue.length > 0) await this.#send(this.#takeGroup());
    this.#running = undefined;
  }

  async #send(group: readonly Pending[]): Promise<void> {
    const { send, topic, partition, waiting } = this.#deps;
    const records = group.flatMap((pending) => pending.records);
    const bytes = sum(group);
    try {
      let baseOffset = await send({ topic, partition, records, bytes });
      for (const pending of group) {
        pending.resolve({ baseOffset });
        baseOffset += pending.records.length;
      }
    } catch (error) {
      for (const pending of group) pending.reject(error);
    } finally {
      waiting.release(bytes);
    }
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

/** What all partitions together may hold: beyond it the brokers are slower than the callers, who are told so. */
export class WaitingBytes {
  readonly #max: number;
  #taken = 0;

  constructor(max = MAX_WAITING_BYTES) {
    this.#max = max;
  }

  /** One that is larger than the bound is taken when nothing else waits, or it could never be. */
  take(bytes: number): boolean {
    if (this.#taken > 0 && this.#taken + bytes > this.#max) return false;
    this.#taken += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#taken -= bytes;
  }
}

const MAX_WAITING_BYTES = 64 * 1024 * 1024;

/** More in one send would make small appends wait for large ones without being any faster. */
const MAX_GATHERED_BYTES = 4 * 1024 * 1024;

/** The cost of a send in kafkajs grows with the square of its records. */
const MAX_GATHERED_RECORDS = 1000;

interface Pending extends CheckedAppend {
  resolve(appended: Appended): void;
  reject(error: unknown): void;
}

function sum(group: readonly Pending[]): number {
  return group.reduce((bytes, pending) => bytes + pending.bytes, 0);
}
