/** Runs retention and compaction in chunks, and overwrites deleted records. Appends and reads can run between two chunks. */
import type { Clock } from '../../../process/clock.ts';
import { Unavailable } from '../../../process/errors.ts';
import { yieldToEventLoop } from '../../../process/waiting.ts';
import type { LogDatabase } from '../database.ts';
import type { RecordStore } from '../recordStore.ts';
import type { TopicCatalog } from '../topicCatalog.ts';
import { Compaction } from './compaction.ts';
import { Retention } from './retention.ts';
import { UnusedBytes } from './unusedBytes.ts';

export class Maintenance {
  readonly #database: LogDatabase;
  readonly #catalog: TopicCatalog;
  readonly #unusedBytes: UnusedBytes;
  readonly #retention: Retention;
  readonly #compaction: Compaction;
  readonly #timer: NodeJS.Timeout;
  #running: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor(
    database: LogDatabase,
    catalog: TopicCatalog,
    records: RecordStore,
    clock: Clock,
    intervalMs: number,
  ) {
    this.#database = database;
    this.#catalog = catalog;
    this.#unusedBytes = new UnusedBytes(database);
    this.#retention = new Retention(database, records, clock, this.#unusedBytes);
    this.#compaction = new Compaction(database, clock, this.#unusedBytes);
    this.#timer = setInterval(() => void this.#runOnSchedule(), intervalMs).unref();
  }

  run(): Promise<void> {
    return this.runExclusive(() => this.#run());
  }

  runExclusive(work: () => Promise<void>): Promise<void> {
    const running = this.#running.then(work);
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
      // Ignores disk errors, because appends report the same errors and the next run tries again.
      if (!(error instanceof Unavailable)) throw error;
    }
  }

  async #run(): Promise<void> {
    for (const { spec, partitions } of this.#catalog.all()) {
      const { cleanup } = spec;
      for (const partition of partitions) {
        if (cleanup.policy === 'delete') {
          await this.#repeat(() => this.#retention.deleteChunk(partition, cleanup.retentionMs));
        } else {
          await this.#repeat(() => this.#compaction.compactChunk(partition));
          await this.#repeat(() => this.#compaction.deleteTombstonesChunk(partition));
        }
      }
    }
    await this.#repeat(() => vacuumChunk(this.#database));
    await this.#unusedBytes.overwrite(() => this.#isStopped);
  }

  async #repeat(chunk: () => boolean): Promise<void> {
    while (!this.#isStopped && chunk()) await yieldToEventLoop();
  }
}

/** Removes one chunk of free pages. Returns true if more free pages can be removed. Does nothing without `auto_vacuum`. */
function vacuumChunk(database: LogDatabase): boolean {
  if (!database.returnsSpace) return false;
  const count = (pragma: string): number =>
    database.read(() => Number(database.sqlite.prepare(`PRAGMA ${pragma}`).get()?.[pragma]));
  const free = count('freelist_count');
  const surplusPages = free - Math.floor(count('page_count') * KEPT_FREE_RATIO);
  if (surplusPages <= 0) return false;
  const pages = Math.min(surplusPages, CHUNK_PAGES);
  database.write(() => database.sqlite.exec(`PRAGMA incremental_vacuum(${pages})`));
  return count('freelist_count') < free;
}

/** Fraction of pages that can stay free. Removing a free page is expensive, because SQLite moves another page. */
const KEPT_FREE_RATIO = 0.2;

/** Number of pages in one chunk. A chunk of 1 MiB blocks the event loop for a few milliseconds. */
const CHUNK_PAGES = 128;
