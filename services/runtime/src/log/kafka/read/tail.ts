/** Follows a topic without a group: a fetcher reads ahead, each partition's records go to `onBatch` in order. */
import { Unavailable } from '../../../process/errors.ts';
import { Doorbell, nextTurn } from '../../doorbell.ts';
import type { Tail, TailOptions } from '../../log.ts';
import { firstPositions, TailPositions } from '../../tailPositions.ts';
import { RenewableCluster } from '../client/renewableCluster.ts';
import type { KafkaDeps } from '../kafkaDeps.ts';
import { Fetcher } from './fetcher.ts';

/** @throws Error for a topic that is not there; Unavailable when no broker answers. */
export async function openTail(deps: KafkaDeps, options: TailOptions): Promise<KafkaTail> {
  const ranges = await deps.catalog.ranges(options.topic);
  return new KafkaTail(
    deps,
    options,
    firstPositions(
      ranges.map((range) => range ?? UNKNOWN),
      options,
    ),
  );
}

/** Stands for a partition without a leader: once it has one, the fetches move into what there is. */
const UNKNOWN = { startOffset: 0, endOffset: Number.POSITIVE_INFINITY };

export class KafkaTail implements Tail {
  readonly failed: Promise<never>;
  /** Resolves when the last `onBatch` has returned and the connections are closed. */
  readonly ended: Promise<void>;
  readonly #fail: (error: unknown) => void;
  readonly #options: TailOptions;
  readonly #positions: TailPositions;
  readonly #cluster: RenewableCluster;
  readonly #fetcher: Fetcher;
  readonly #bells: readonly Doorbell[];
  readonly #followed: Promise<unknown>;

  constructor(deps: KafkaDeps, options: TailOptions, positions: readonly number[]) {
    const { promise, reject } = Promise.withResolvers<never>();
    promise.catch(() => undefined);
    this.failed = promise;
    this.#fail = reject;
    this.#options = options;
    this.#positions = new TailPositions(options.topic, positions);
    this.#cluster = new RenewableCluster(deps.kafka, [deps.nameOf(options.topic)]);
    this.#fetcher = new Fetcher(deps, {
      cluster: this.#cluster,
      topics: [options.topic],
      onFailed: (error) => this.#failWith(error),
    });
    this.#bells = positions.map(() => new Doorbell());
    this.#followed = Promise.all(this.#bells.map((bell, partition) => this.#follow(bell, partition)));
    this.ended = this.#followed.then(() => this.#cluster.close());
  }

  positions(): readonly number[] {
    return this.#positions.all();
  }

  reached(offsets: readonly number[], signal?: AbortSignal): Promise<void> {
    return this.#positions.reached(offsets, signal);
  }

  /** Does not wait for the connections (`ended`): a broker may hold an answer back for a moment. */
  async close(): Promise<void> {
    this.#end(new Unavailable(`the tail of ${this.#options.topic} was closed`));
    await this.#followed;
  }

  async #follow(bell: Doorbell, partition: number): Promise<void> {
    const { topic, onBatch } = this.#options;
    const buffer = this.#fetcher.open(topic, partition, this.#positions.of(partition), () => bell.ring());
    try {
      // The caller has its tail before the first batch.
      await nextTurn();
      while (!this.#positions.hasEnded) {
        const taken = buffer.take(CHUNK);
        if (taken === undefined) {
          await bell.wait();
          continue;
        }
        await onBatch({ topic, partition, ...taken });
        this.#positions.advance(partition, taken.nextOffset);
        await nextTurn();
      }
    } catch (error) {
      this.#failWith(error);
    }
  }

  #failWith(error: unknown): void {
    // Once closed, or failed elsewhere, nobody is left to tell.
    if (!this.#positions.hasEnded) this.#fail(error);
    this.#end(error);
  }

  #end(cause: unknown): void {
    this.#positions.end(cause);
    this.#fetcher.close();
    for (const bell of this.#bells) bell.ring();
  }
}

/** One `onBatch` gets at most this much. */
const CHUNK = { maxRecords: 1000, maxBytes: 4 * 1024 * 1024 };
