/**
 * Repeats the appends of records that a truncation removed, because clients have received acknowledgments for these records.
 */

import type { Log, LogRecord, NewRecord } from '@questlog/runtime/log/log';
import type { ProjectionProgress } from '@questlog/runtime/log/projection/projection';
import type { TruncatedRange, TruncationParticipant } from '@questlog/runtime/log/truncation/participants';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { retry } from '@questlog/runtime/process/waiting';
import { UnprojectedRecords } from './unprojectedRecords.ts';

interface TruncationRepairDeps {
  readonly log: Pick<Log, 'append'>;
  readonly projection: ProjectionProgress;
  readonly logger: Logger;
  /** Receives, for each partition, the offset below which ClickHouse has all records. */
  readonly onProjected: (projected: readonly number[]) => void;
  readonly onReappended?: ((topic: string, records: number) => void) | undefined;
}

/**
 * Maximum bytes of the keys and values of one append. Kafka also counts headers and framing, which take at most 180 bytes per
 * record. The smallest record has 165 bytes of key and value, so headers and framing can double the size. The maximum is a
 * quarter of Kafka's limit, to be safe.
 */
const MAX_BATCH_BYTES = 256 * 1024;

export class TruncationRepair implements TruncationParticipant {
  readonly #deps: TruncationRepairDeps;
  readonly #topic: string;
  readonly #unprojected = new UnprojectedRecords();
  readonly #running = new Map<number, Promise<void>>();
  readonly #closed = new AbortController();
  #isUpdating = false;

  constructor(deps: TruncationRepairDeps, topic: string) {
    this.#deps = deps;
    this.#topic = topic;
  }

  add(partition: number, record: LogRecord): void {
    this.#unprojected.put(partition, record);
    if (this.#unprojected.needsProjected && !this.#isUpdating) void this.#updateProjected();
  }

  onTruncated({ partition, offset }: TruncatedRange): void {
    const lost = this.#unprojected.truncate(partition, offset);
    if (lost.length === 0) return;
    const previous = this.#running.get(partition) ?? Promise.resolve();
    const running = previous
      .then(() => this.#append(partition, lost))
      .finally(() => this.#running.get(partition) === running && this.#running.delete(partition));
    this.#running.set(partition, running);
  }

  /** Waits until the partition's lost records are appended again, or until `close` is called. Never throws. */
  async repaired(partition: number): Promise<void> {
    await this.#running.get(partition);
  }

  close(): void {
    this.#closed.abort();
  }

  async #append(partition: number, records: NewRecord[]): Promise<void> {
    const { log, logger, onReappended } = this.#deps;
    const where = { topic: this.#topic, partition };
    try {
      for (const batch of batchesOf(records)) {
        await retry(() => log.append(this.#topic, partition, batch), {
          signal: this.#closed.signal,
          onDelay: (cause, backoffMs) =>
            logger.error('appending_again_delayed', cause, { ...where, backoffMs }),
        });
        onReappended?.(this.#topic, batch.length);
      }
      logger.warn('records_appended_again', { ...where, records: records.length });
    } catch (error) {
      if (!this.#closed.signal.aborted) logger.error('appending_again_failed', error, where);
    }
  }

  async #updateProjected(): Promise<void> {
    this.#isUpdating = true;
    try {
      const projected = await this.#deps.projection.projected();
      this.#unprojected.setProjected(projected);
      this.#deps.onProjected(projected);
    } catch (error) {
      // Keeps the copies of all records while it is unknown which records ClickHouse has.
      if (!(error instanceof Unavailable)) this.#deps.logger.error('projection_unknown', error);
      this.#unprojected.setProjected([]);
    }
    this.#isUpdating = false;
  }
}

function* batchesOf(records: readonly NewRecord[]): Generator<NewRecord[]> {
  let batch: NewRecord[] = [];
  let bytes = 0;
  for (const record of records) {
    const size = (record.key?.length ?? 0) + (record.value?.length ?? 0);
    if (batch.length > 0 && bytes + size > MAX_BATCH_BYTES) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(record);
    bytes += size;
  }
  if (batch.length > 0) yield batch;
}
