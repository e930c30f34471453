/**
 * Publishes, for each partition, the offset below which ClickHouse contains all records (table `projected_offsets`). An export
 * of the rows below this offset is complete.
 */
import { rowTable } from '@questlog/runtime/clickhouse/rowTable';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { steadyClock } from '@questlog/runtime/process/clock';
import { messageOf } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { coalesceCalls, settledWithin } from '@questlog/runtime/process/waiting';
import { writeRows } from './rowSink.ts';
import type { TopicSource, TruncationRow } from './truncations/truncations.ts';

/** Minimum time between two inserts into `projected_offsets`, because each insert creates a new part of the table. */
const PUBLISH_EVERY_MS = 1_000;
const LAST_INSERT_MS = 3_000;

export interface PartitionOffsets {
  /**
   * Publishes the offset with a new generation number. Rows of earlier owners have a lower generation number, and readers
   * ignore these rows.
   * @param confirm checks the ownership after the latest generation was read. Without this check, an earlier owner could
   * publish a higher generation
   */
  start(nextOffset: number, tableUuid: string, confirm: () => Promise<void>): Promise<void>;
  /** Publishes a higher offset. The caller must already have committed this offset. */
  advance(nextOffset: number): void;
}

export class OffsetPublisher {
  readonly #store: Store;
  readonly #logger: Logger;
  readonly #generations: () => Promise<Generations>;
  readonly #insertStarting: () => Promise<void>;
  readonly #starting: Row[] = [];
  #waiting = new Map<string, Row>();
  #timer: NodeJS.Timeout | undefined;
  #lastAtMs = Number.NEGATIVE_INFINITY;
  #inserting: Promise<void> = Promise.resolve();
  #isFailing = false;
  #isStopped = false;

  constructor({ store, logger, log }: { store: Store; logger: Logger; log: { readonly id: string } }) {
    this.#store = store;
    this.#logger = logger;
    this.#generations = coalesceCalls(() => generationsOf(store, log.id));
    this.#insertStarting = coalesceCalls(() => this.#write(this.#starting.splice(0)));
  }

  of(source: TopicSource, table: string, truncations: readonly TruncationRow[]): PartitionOffsets {
    const name = nameOf(source);
    let own: Row | undefined;
    return {
      start: async (nextOffset, tableUuid, confirm) => {
        const generation = ((await this.#generations()).get(name) ?? 0) + 1;
        await confirm();
        const idTable = this.#store.idTable?.(table) ?? table;
        own = { ...source, table: idTable, tableUuid, generation, nextOffset, lost: undefined };
        this.#starting.push(own, ...lostOf(own, truncations));
        await this.#insertStarting();
      },
      advance: (nextOffset) => {
        if (own === undefined) return;
        this.#waiting.set(name, { ...own, nextOffset });
        this.#schedule();
      },
    };
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    const last = this.#inserting.then(() => this.#insertWaiting());
    await settledWithin(last, LAST_INSERT_MS);
  }

  #schedule(): void {
    if (this.#isStopped) return;
    const waitMs = Math.max(0, this.#lastAtMs + PUBLISH_EVERY_MS - steadyClock.now());
    this.#timer ??= setTimeout(() => {
      this.#inserting = this.#insertWaiting();
    }, waitMs);
  }

  async #insertWaiting(): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = new Map();
    try {
      await this.#write([...waiting.values()]);
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) this.#logger.warn('offsets_not_published', { cause: messageOf(error) });
      this.#isFailing = true;
      this.#waiting = new Map([...waiting, ...this.#waiting]);
    }
    this.#lastAtMs = steadyClock.now();
    this.#timer = undefined;
    if (this.#waiting.size > 0) this.#schedule();
  }

  async #write(rows: readonly Row[]): Promise<void> {
    await writeRows(this.#store, PROJECTED_OFFSETS, rows);
  }
}

interface Row extends TopicSource {
  readonly table: string;
  readonly tableUuid: string;
  readonly generation: number;
  readonly nextOffset: number;
  readonly lost: { readonly byLogId: string; readonly from: number } | undefined;
}

type Generations = ReadonlyMap<string, number>;

async function generationsOf(store: Store, logId: string): Promise<Generations> {
  const rows = await store.query<{ topic: string; partition: number; generation: number }>(
    `SELECT topic, partition, max(generation) AS generation FROM projected_offset_versions
     WHERE log_id = {logId:UUID} GROUP BY topic, partition`,
    { logId },
  );
  return new Map(rows.map((row) => [nameOf(row), row.generation]));
}

function nameOf({ topic, partition }: Pick<TopicSource, 'topic' | 'partition'>): string {
  return `${topic}/${partition}`;
}

function lostOf(row: Row, truncations: readonly TruncationRow[]): Row[] {
  return truncations.map(({ orphanId, offset, endOffset }) => ({
    ...row,
    logId: orphanId,
    nextOffset: Number(endOffset),
    lost: { byLogId: row.logId, from: Number(offset) },
  }));
}

const PROJECTED_OFFSETS = rowTable<Row>('projected_offset_versions', {
  log_id: (out, { logId }) => out.uuid(logId),
  topic: (out, { topic }) => out.string(topic),
  partition: (out, { partition }) => out.uint32(partition),
  table_name: (out, { table }) => out.string(table),
  table_uuid: (out, { tableUuid }) => out.uuid(tableUuid),
  generation: (out, { generation }) => out.uint32(generation),
  next_offset: (out, { nextOffset }) => out.uint64(nextOffset),
  truncated_log_id: (out, { lost }) => out.nullableUuid(lost?.byLogId ?? null),
  truncated_from: (out, { lost }) => out.nullable(lost?.from ?? null, (from) => out.uint64(from)),
});
