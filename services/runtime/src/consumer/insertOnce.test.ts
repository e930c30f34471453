/**
 * Tests that rows are inserted exactly once. A lost response causes no duplicates, and a token that ClickHouse already has
 * causes no missing rows.
 */
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

const notConfirmed = async (): Promise<void> => {
  throw new Error('there is nothing to insert');
};

/** Table that acknowledges and drops an insert whose token it already has, as ClickHouse does. */
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
    // An empty token disables deduplication.
    if (token !== '') this.#tokens.add(token);
  }

  /** Inserts the whole block. Each row has one byte. */
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

test('inserts rows that cannot exist yet under their token, without a read', async () => {
  const table = new TokenTable();
  await table.insertBlock({ verify: false });
  expect(table.inserts).toEqual([
    { table: 'events', columns: COLUMNS, rows: Buffer.from(BLOCK), deduplicationToken: TOKEN },
  ]);
  expect(table.readings).toBe(0);
});

test.each([
  ['no row is stored', [], []],
  ['the token is known and its rows are missing', [], [TOKEN]],
  ['some rows are stored', [0, 2], [TOKEN]],
  ['all rows are stored', BLOCK, [TOKEN]],
  ['all rows are stored and the token is unknown', BLOCK, []],
])('where %s, every row is stored once', async (_, rows, tokens) => {
  const table = new TokenTable(rows, tokens);
  await table.insertBlock({ verify: true });
  expect(table.rows.toSorted()).toEqual(BLOCK);
  await table.insertBlock({ verify: true });
  expect(table.rows.toSorted()).toEqual(BLOCK);
});

test('a late insert of the previous owner under the same token changes nothing', async () => {
  const table = new TokenTable();
  await table.insertBlock({ verify: true });
  await table.insertBlock({ verify: false });
  expect(table.rows).toEqual(BLOCK);
});

test('a late insert under any token that an attempt has used changes nothing', async () => {
  const burnt = [TOKEN, `${TOKEN} again`];
  const late = new TokenTable([], burnt);
  await late.insertBlock({ verify: true });
  // The late inserts are those of an attempt that was abandoned before its response.
  const table = new TokenTable([], burnt);
  await table.insertBlock({ verify: true });
  for (const insert of late.inserts) table.insert(insert);
  expect(table.rows.toSorted()).toEqual(BLOCK);
});

test('inserts every row, however many tokens are known', async () => {
  const table = new TokenTable([], [TOKEN, `${TOKEN} again`, `${TOKEN} once more`]);
  await table.insertBlock({ verify: true });
  expect(table.rows.toSorted()).toEqual(BLOCK);
});

test('shares no token with another block of the same offsets after a truncation', async () => {
  const table = new TokenTable([], [TOKEN]);
  await table.insertBlock({ verify: true });
  table.rows.length = 0;
  await table.insertBlock({ verify: false, token: `${TOKEN}/1` });
  expect(table.rows).toEqual(BLOCK);
});

test('finishes if the table drops the rows at once because of its TTL', async () => {
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

test('confirms the ownership of the partition before each insert, and inserts nothing after its loss', async () => {
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
  await whole.insertBlock({ verify: true, confirm: notConfirmed });
});

test('inserts nothing for a block without rows', async () => {
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
    { verify: false, confirm: notConfirmed },
  );
  expect(table.inserts).toEqual([]);
});
