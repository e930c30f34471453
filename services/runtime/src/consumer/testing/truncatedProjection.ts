/** Projection of a log that a test truncates, with tables in memory. */
import { APPEND_ID_HEADER } from '@questlog/schemas/topics/topics';
import { expect } from 'vitest';
import { aLog, topicSpec } from '../../log/embedded/testing/testLog.ts';
import type { LogRecord, OwnedPartition } from '../../log/log.ts';
import type { StoredRows, Truncation } from '../../log/truncation/findTruncation.ts';
import { systemClock } from '../../process/clock.ts';
import { type Logger, silentLogger } from '../../process/logger.ts';
import { runBlocks } from '../blocks.ts';
import type { Block } from '../blockWriter.ts';
import { ReadDrivenClock, WITHIN_MS } from './readDrivenClock.ts';

export const TOPIC = 'cuts';
export const GROUP = 'cuts-test';

interface Row {
  readonly offset: number;
  readonly name: string;
}

const nameOf = (record: LogRecord): string => record.value?.toString() ?? '';

/** Tables in memory. A repair moves the rows of lost records to `moved`. */
class Tables {
  rows: Row[] = [];
  readonly moved: Row[] = [];
  readonly repairs: Truncation[] = [];
  /** Truncation whose repair is not complete. */
  begun: Truncation | undefined;
  beforeRow = (_name: string): void => {};
  beforeDeadLetter = (): void => {};
  /** Called before each search for rows above an offset, which follows the search for a truncation. */
  beforeVerification = async (): Promise<void> => {};
  /** Called during each repair. */
  amidRepair = (): void => {};
  /** Rows of inserts that take effect during the wait for late inserts. */
  readonly lateRows: Row[] = [];

  held(): StoredRows {
    return {
      hasRowsFrom: async (from) => {
        await this.beforeVerification();
        return this.rows.some(({ offset }) => offset >= from);
      },
      highestRow: async (above) =>
        this.rows
          .filter(({ offset }) => offset > above)
          .toSorted((a, b) => a.offset - b.offset)
          .at(-1),
      nearestRow: async ({ above, below, about }) =>
        this.rows
          .filter(({ offset }) => offset > above && offset < below)
          .toSorted((a, b) => Math.abs(a.offset - about) - Math.abs(b.offset - about))[0],
      rowNamesOf: async (record) => [nameOf(record)],
      unfinishedRepair: async () => this.begun,
      repair: async (cut, confirm) => {
        await confirm();
        this.repairs.push(cut);
        this.begun = cut;
        this.amidRepair();
        const lost = this.rows.filter(({ offset }) => offset >= cut.offset);
        this.rows = this.rows.filter((row) => !lost.includes(row));
        this.moved.push(...lost);
        return lost.length;
      },
      markRepaired: async () => {
        this.begun = undefined;
      },
    };
  }

  async apply({ records }: Block, { verify }: { verify: boolean }): Promise<void> {
    for (const record of records) {
      const row = { offset: record.offset, name: nameOf(record) };
      if (verify && this.rows.some(({ offset }) => offset === row.offset)) continue;
      this.beforeRow(row.name);
      this.rows.push(row);
    }
  }

  names(): string[] {
    return this.rows.toSorted((a, b) => a.offset - b.offset).map(({ name }) => name);
  }
}

export async function aProjection({ insertsEndWithinMs = 0 } = {}) {
  const log = await aLog({ clock: systemClock });
  await log.ensureTopics([topicSpec(TOPIC)]);
  const tables = new Tables();
  const truncations: { cut: Truncation; records: number }[] = [];
  const logged: [event: string, fields: unknown][] = [];
  const clock = new ReadDrivenClock();
  const logger: Logger = {
    ...silentLogger,
    error: (event, _, fields) => void logged.push([event, fields]),
    warn: (_, fields) => {
      if (fields?.['waitMs'] === undefined) return;
      tables.rows.push(...tables.lateRows.splice(0));
      clock.advance(Number(fields['waitMs']));
    },
  };
  const committed = async () => (await log.committed(GROUP, TOPIC))[0]?.offset;
  return {
    ...{ log, tables, clock, cuts: truncations, said: logged, committed },
    /** Appends records with these names. The names are also the records' append ids. */
    append: async (...names: string[]) => {
      for (const name of names)
        await log.append(TOPIC, 0, [
          { key: null, value: Buffer.from(name), headers: { [APPEND_ID_HEADER]: name } },
        ]);
    },
    start: (asAssigned = (owned: OwnedPartition) => owned) =>
      log.consume({
        group: GROUP,
        topics: [TOPIC],
        process: (owned) =>
          runBlocks(asAssigned(clock.reads(owned)), {
            ...{ log, clock, logger, topic: TOPIC, flushIntervalMs: 0, insertsEndWithinMs },
            storedRows: tables.held(),
            tablesId: { current: async () => 'as made', cached: async () => 'as made' },
            openWriter: async () => ({
              plan: async (block: Block) => block,
              apply: (block, attempt) => tables.apply(block, attempt),
              deadLetter: async () => tables.beforeDeadLetter(),
            }),
            onWritten: () => {},
            publishStart: async () => {},
            onProjected: () => {},
            onTruncation: (cut, records) => void truncations.push({ cut, records }),
          }),
      }),
    /** Runs a consumer until every record is committed or an error occurs. */
    async run(asAssigned?: (owned: OwnedPartition) => OwnedPartition) {
      const consumer = await this.start(asAssigned);
      const [end] = await log.endOffsets(TOPIC);
      const done = expect.poll(committed, { timeout: WITHIN_MS, interval: 2 }).toBe(end);
      await Promise.race([done, consumer.failed]).finally(() => consumer.stop());
    },
  };
}
