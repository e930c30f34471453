/** Feeds one reader without a group: each partition in order, in bounded chunks, woken by appends. */
import { Unavailable } from '../../process/errors.ts';
import { Doorbell, nextTurn } from '../doorbell.ts';
import type { Tail, TailOptions } from '../log.ts';
import { firstPositions, TailPositions } from '../tailPositions.ts';
import type { ReadBounds, RecordStore } from './recordStore.ts';
import type { PartitionState } from './topicCatalog.ts';

export class EmbeddedTail implements Tail {
  readonly failed: Promise<never>;
  /** Resolves when the last `onBatch` has returned and none will follow. */
  readonly ended: Promise<unknown>;
  readonly #fail: (error: unknown) => void;
  readonly #records: RecordStore;
  readonly #options: TailOptions;
  readonly #positions: TailPositions;
  readonly #bells: Doorbell[] = [];

  constructor(records: RecordStore, partitions: readonly PartitionState[], options: TailOptions) {
    const { promise, reject } = Promise.withResolvers<never>();
    promise.catch(() => undefined);
    this.failed = promise;
    this.#fail = reject;
    this.#records = records;
    this.#options = options;
    this.#positions = new TailPositions(options.topic, firstPositions(partitions, options));
    this.ended = Promise.all(partitions.map((partition, index) => this.#follow(partition, index)));
  }

  positions(): readonly number[] {
    return this.#positions.all();
  }

  reached(offsets: readonly number[], signal?: AbortSignal): Promise<void> {
    return this.#positions.reached(offsets, signal);
  }

  async close(): Promise<void> {
    this.#end(new Unavailable(`the tail of ${this.#options.topic} was closed`));
    await this.ended;
  }

  async #follow(partition: PartitionState, index: number): Promise<void> {
    const bell = new Doorbell();
    this.#bells.push(bell);
    partition.readers.add(bell);
    try {
      // The caller has its tail before the first batch.
      await nextTurn();
      while (!this.#positions.hasEnded) {
        const position = this.#positions.of(index);
        if (position >= partition.endOffset) {
          await bell.wait();
          continue;
        }
        const batch = this.#records.read(partition, position, CHUNK);
        await this.#options.onBatch(batch);
        this.#positions.advance(index, batch.nextOffset);
        await nextTurn();
      }
    } catch (error) {
      // Once closed, or failed elsewhere, nobody is left to tell.
      if (!this.#positions.hasEnded) this.#fail(error);
      this.#end(error);
    } finally {
      partition.readers.delete(bell);
    }
  }

  #end(cause: unknown): void {
    this.#positions.end(cause);
    for (const bell of this.#bells) bell.ring();
  }
}

/** One `onBatch` gets at most this much. */
const CHUNK: ReadBounds = { maxRecords: 1000, maxBytes: 4 * 1024 * 1024 };
