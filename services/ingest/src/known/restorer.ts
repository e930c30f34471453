/** Appends again what a cut has taken of a topic: it had been acknowledged, and games go on without an operator. */
import type { Log, LogRecord, NewRecord } from '@questlog/runtime/log/log';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { retryUntilAvailable } from '@questlog/runtime/process/waiting';
import type { Projection } from './projection.ts';
import { UnprojectedRecords } from './unprojected.ts';

interface RestorerDeps {
  readonly log: Pick<Log, 'append'>;
  readonly projection: Projection;
  readonly logger: Logger;
  /** Hears what ClickHouse has, each time that this has asked. While nobody tells it hears nothing. */
  readonly onProjected: (projected: readonly number[]) => void;
  /** Hears of records that are in the log again. */
  readonly onAppendedAgain?: ((topic: string, records: number) => void) | undefined;
}

/** Of one append. */
const MAX_BYTES = 1024 * 1024;

export class Restorer {
  readonly #deps: RestorerDeps;
  readonly #topic: string;
  readonly #unprojected = new UnprojectedRecords();
  readonly #running = new Map<number, Promise<void>>();
  readonly #closed = new AbortController();
  #isAsking = false;

  constructor(deps: RestorerDeps, topic: string) {
    this.#deps = deps;
    this.#topic = topic;
  }

  /** Called for each record that is to outlast a cut. Waits for nothing. */
  read(partition: number, record: LogRecord): void {
    this.#unprojected.put(partition, record);
    if (this.#unprojected.isDue && !this.#isAsking) void this.#ask();
  }

  /** The log no longer holds what was read from the offset on. */
  cut(partition: number, offset: number): void {
    const lost = this.#unprojected.cut(partition, offset);
    if (lost.length === 0) return;
    const before = this.#running.get(partition) ?? Promise.resolve();
    const running = before
      .then(() => this.#append(partition, lost))
      .finally(() => this.#running.get(partition) === running && this.#running.delete(partition));
    this.#running.set(partition, running);
  }

  /** Resolves, in any case, once the log has again what it had lost of the partition, or this is closed. */
  async restored(partition: number): Promise<void> {
    await this.#running.get(partition);
  }

  close(): void {
    this.#closed.abort();
  }

  async #append(partition: number, records: NewRecord[]): Promise<void> {
    const { log, logger, onAppendedAgain } = this.#deps;
    const where = { topic: this.#topic, partition };
    try {
      for (const part of partsOf(records)) {
        await retryUntilAvailable(() => log.append(this.#topic, partition, part), {
          signal: this.#closed.signal,
          onDelay: (cause, backoffMs) =>
            logger.error('appending_again_delayed', cause, { ...where, backoffMs }),
        });
        onAppendedAgain?.(this.#topic, part.length);
      }
      logger.warn('records_appended_again', { ...where, records: records.length });
    } catch (error) {
      if (!this.#closed.signal.aborted) logger.error('appending_again_failed', error, where);
    }
  }

  async #ask(): Promise<void> {
    this.#isAsking = true;
    try {
      const projected = await this.#deps.projection.projected();
      this.#unprojected.asked(projected);
      this.#deps.onProjected(projected);
    } catch (error) {
      // They are kept for longer.
      if (!(error instanceof Unavailable)) this.#deps.logger.error('projection_unknown', error);
      this.#unprojected.asked([]);
    }
    this.#isAsking = false;
  }
}

function* partsOf(records: readonly NewRecord[]): Generator<NewRecord[]> {
  let part: NewRecord[] = [];
  let bytes = 0;
  for (const record of records) {
    const size = (record.key?.length ?? 0) + (record.value?.length ?? 0);
    if (part.length > 0 && bytes + size > MAX_BYTES) {
      yield part;
      [part, bytes] = [[], 0];
    }
    part.push(record);
    bytes += size;
  }
  if (part.length > 0) yield part;
}
