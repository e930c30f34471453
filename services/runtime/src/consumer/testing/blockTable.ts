/** In-memory table for tests that write blocks. */
import type { Log } from '../../log/log.ts';
import type { StoredRows } from '../../log/truncation/findTruncation.ts';
import { type Clock, systemClock } from '../../process/clock.ts';
import { Invalid } from '../../process/errors.ts';
import { silentLogger } from '../../process/logger.ts';
import type { BlockOptions } from '../blockOptions.ts';
import type { Block, BlockWriter } from '../blockWriter.ts';

/** Table that keeps every row. If a row is inserted twice, `rows` contains the row twice. */
export class BlockTable {
  readonly rows: number[] = [];
  readonly deadLettered: number[] = [];
  /** First offsets of the blocks that were written without a read of the stored rows. */
  readonly unverified: number[] = [];
  name = 'as made';
  refuses = (_offset: number): boolean => false;
  /** Called before each row. A test can throw here to simulate a crash or a lost response. */
  beforeRow = (_written: number): void => {};

  /** Offsets that were published for this table. */
  readonly published: number[] = [];

  storedRows(): StoredRows {
    return {
      hasRowsFrom: async (offset) => this.rows.some((row) => row >= offset),
      highestRow: async () => undefined,
      nearestRow: async () => undefined,
      rowNamesOf: async () => [],
      unfinishedRepair: async () => undefined,
      repair: async () => 0,
      markRepaired: async () => {},
    };
  }

  writer(): BlockWriter<Block> {
    return {
      plan: async (block) => block,
      apply: async (block, { verify, confirm }) => {
        if (!verify) this.unverified.push(block.start);
        const refused = block.records.find(({ offset }) => this.refuses(offset));
        if (refused !== undefined) throw new Invalid(`the table refuses offset ${refused.offset}`);
        for (const { offset } of block.records) {
          if (verify && this.rows.includes(offset)) continue;
          this.beforeRow(this.rows.length);
          await confirm();
          this.rows.push(offset);
        }
        this.beforeRow(this.rows.length);
      },
      deadLetter: async (block) => {
        for (const { offset } of block.records) this.deadLettered.push(offset);
      },
    };
  }
}

/** Returns options that write a topic to the table. A test overrides the options that it changes. */
export function blockOptions(
  log: Log,
  topic: string,
  table: BlockTable,
  clock: Clock = systemClock,
): BlockOptions<Block> {
  const publish = (nextOffset: number, name: string): void => {
    if (name === table.name) table.published.push(nextOffset);
  };
  return {
    ...{ log, topic, clock, logger: silentLogger, flushIntervalMs: 0, insertsEndWithinMs: 0 },
    tablesId: { current: async () => table.name, cached: async () => table.name },
    storedRows: table.storedRows(),
    openWriter: async () => table.writer(),
    onWritten: () => {},
    publishStart: async (nextOffset, name) => publish(nextOffset, name),
    onProjected: publish,
    onTruncation: () => {},
  };
}
