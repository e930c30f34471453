/** Rows come in exactly once: not again after a lost answer, and all the same under a token that ClickHouse has burnt. */
import { expect, test } from 'vitest';
import type { Insert, Store } from '../clickhouse/store.ts';
import { withMethods } from '../log/testing/alteredLog.ts';
import { Fenced } from '../process/errors.ts';
import { insertOnce } from './insertOnce.ts';

const TOKEN = 'log/topic/0/0-4';
const BLOCK = [0, 1, 2, 3];
const COLUMNS = ['offset'];

interface Attempted {
  readonly verify: boolean;
  readonly token?: string;
  confirm?(): Promise<void>;
}

const unasked = async (): Promise<void> => {
  throw new Error('there is nothing to insert');
};

/** Acknowledges and drops what comes under a token that it has seen, as ClickHouse does. */
class TokenTable {
  readonly rows: number[];
  readonly #tokens: Set<string | undefined>;
  readonly inserts: Insert[] = [];
  readings = 0;
  readonly store: Store;

  constructor(rows: readonly number[] = [], tokens: readonly string[] = []) {
    this.rows = [...rows];
    this.#tokens = new Set(tokens);
    this.store = withMethods<Store>({} as Store, { insert: async (insert) => this.insert(insert) });
  }

  insert(insert: Insert): void {
    const { rows, deduplicationToken: token } = insert;
    this.inserts.push(insert);
    if (!this.#tokens.has(token)) this.rows.push(...rows);
    // An empty one is none.
    if (token !== '') this.#tokens.add(token);
  }

  /** The whole block, one byte a row. */
  async insertBlock({ verify, token = TOKEN, confirm = async () => {} }: Attempted) {
    const insert = {
      table: 'events',
      columns: COLUMNS,
      token,
      encodeRows: (isWanted: (offset: number) => boolean) => Buffer.from(BLOCK.filter(isWanted)),
      storedOffsets: async () => {
        this.readings += 1;
        return new Set(this.rows);
      },
    };
    await insertOnce(this.store, insert, { verify, confirm });
  }
}

test('rows of which nothing can be there go in under their token, unread', async () => {
  const table = new TokenTable();
  await table.insertBlock({ verify: false });
  expect(table.inserts).toEqual([
    { table: 'events', columns: COLUMNS, rows: Buffer.from(BLOCK), deduplicationToken: TOKEN },
  ]);
  expect(table.readings).toBe(0);
});

test.each([
  ['nothing is there', [], []],
  ['the token is known, and its rows are gone', [], [TOKEN]],
  ['some are there', [0, 2], [TOKEN]],
  ['all are there', BLOCK, [TOKEN]],
  ['all are there, and the token is forgotten', BLOCK, []],
])('where %s, every row is there once', async (_, rows, tokens) => {
  const table = new TokenTable(rows, tokens);
  await table.insertBlock({ verify: true });
  expect(table.rows.toSorted()).toEqual(BLOCK);
  await table.insertBlock({ verify: true });
  expect(table.rows.toSorted()).toEqual(BLOCK);
});

test('an insert of the owner before, which comes late under the same token, changes nothing', async () => {
  const table = new TokenTable();
  await table.insertBlock({ verify: true });
  await table.insertBlock({ verify: false });
  expect(table.rows).toEqual(BLOCK);
});

test('an insert that comes late under any token that an attempt has used changes nothing', async () => {
  const burnt = [TOKEN, `${TOKEN} again`];
  const late = new TokenTable([], burnt);
  await late.insertBlock({ verify: true });
  // The same on its way, from an attempt that was given up before it had an answer.
  const table = new TokenTable([], burnt);
  await table.insertBlock({ verify: true });
  for (const insert of late.inserts) table.insert(insert);
  expect(table.rows.toSorted()).toEqual(BLOCK);
});

test('however many tokens are burnt, every row goes in', async () => {
  const table = new TokenTable([], [TOKEN, `${TOKEN} again`, `${TOKEN} once more`]);
  await table.insertBlock({ verify: true });
  expect(table.rows.toSorted()).toEqual(BLOCK);
});

test('no further token is that of another block: of the same offsets, once the log was cut', async () => {
  const table = new TokenTable([], [TOKEN]);
  await table.insertBlock({ verify: true });
  table.rows.length = 0;
  await table.insertBlock({ verify: false, token: `${TOKEN}/1` });
  expect(table.rows).toEqual(BLOCK);
});

test('rows that the table drops at once, being older than its TTL, hold nobody up', async () => {
  let inserts = 0;
  const insert = async (): Promise<void> => {
    inserts += 1;
  };
  const store = withMethods<Store>({} as Store, { insert });
  const storedOffsets = async () => new Set<number>();
  const rows = {
    table: 'appends',
    columns: COLUMNS,
    token: TOKEN,
    storedOffsets,
    encodeRows: () => Buffer.from(BLOCK),
  };
  await insertOnce(store, rows, { verify: true, confirm: async () => {} });
  expect(inserts).toBeLessThan(5);
});

test('whose the partition is, is asked before each insert; one that lost it inserts nothing', async () => {
  for (const verify of [true, false]) {
    const table = new TokenTable();
    const lost = table.insertBlock({
      verify,
      confirm: async () => {
        throw new Fenced('the partition is another’s');
      },
    });
    await expect(lost).rejects.toBeInstanceOf(Fenced);
    expect(table.inserts).toEqual([]);
  }
  const whole = new TokenTable(BLOCK);
  await whole.insertBlock({ verify: true, confirm: unasked });
});

test('a block without rows inserts nothing', async () => {
  const table = new TokenTable();
  const insert = {
    table: 'events',
    columns: COLUMNS,
    token: TOKEN,
    storedOffsets: async () => new Set<number>(),
  };
  await insertOnce(
    table.store,
    { ...insert, encodeRows: () => Buffer.alloc(0) },
    { verify: false, confirm: unasked },
  );
  expect(table.inserts).toEqual([]);
});
