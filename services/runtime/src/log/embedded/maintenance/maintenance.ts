/** Runs retention and compaction over all topics, in chunks between which everything else has its turn. */
import { Unavailable } from '../../../process/errors.ts';
import { nextTurn } from '../../../process/waiting.ts';
import type { PartitionState, TopicCatalog } from '../topicCatalog.ts';
import type { Compaction } from './compaction.ts';
import type { Retention } from './retention.ts';

export interface MaintenanceDeps {
  readonly catalog: TopicCatalog;
  readonly retention: Retention;
  readonly compaction: Compaction;
}

export class Maintenance {
  readonly #deps: MaintenanceDeps;
  readonly #timer: NodeJS.Timeout;
  #running: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor(deps: MaintenanceDeps, intervalMs: number) {
    this.#deps = deps;
    this.#timer = setInterval(() => void this.#runOnSchedule(), intervalMs).unref();
  }

  /** Does all there is to do now, after a run that is under way. */
  run(): Promise<void> {
    const run = () => this.#run();
    const running = this.#running.then(run);
    this.#running = running.catch(() => undefined);
    return running;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    await this.#running;
  }

  async #runOnSchedule(): Promise<void> {
    try {
      await this.run();
    } catch (error) {
      // A disk in trouble is what appends report; the next run tries again. Anything else is a bug.
      if (!(error instanceof Unavailable)) throw error;
    }
  }

  async #run(): Promise<void> {
    const { catalog, retention, compaction } = this.#deps;
    for (const { spec, partitions } of catalog.all()) {
      const { cleanup } = spec;
      for (const partition of partitions) {
        if (cleanup.policy === 'delete') {
          await this.#repeat(() => retention.deleteChunk(partition, cleanup.retentionMs));
        } else {
          await this.#compact(compaction, partition);
        }
      }
    }
  }

  async #compact(compaction: Compaction, partition: PartitionState): Promise<void> {
    await this.#repeat(() => compaction.compactChunk(partition));
    await this.#repeat(() => compaction.deleteTombstonesChunk(partition));
  }

  async #repeat(chunk: () => boolean): Promise<void> {
    while (!this.#isStopped && chunk()) await nextTurn();
  }
}
