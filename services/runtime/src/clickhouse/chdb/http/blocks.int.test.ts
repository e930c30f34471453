/** Tests the two forms of responses that clients request: ClickHouse's own compression, and the format Native with a version. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { aClickHouse, auth, type TestServer } from '../testing/aClickHouse.ts';
import { cityHash128 } from './cityHash.ts';
import { nativeBlocks } from './nativeBlocks.ts';

/** The version of clickhouse-go 2.51. */
const VERSION = '54460';
let it: TestServer;
beforeAll(async () => {
  it = await aClickHouse();
});
afterAll(() => it[Symbol.asyncDispose]());

async function bytesOf(sql: string, parameters: Record<string, string>): Promise<Buffer> {
  const query = new URLSearchParams({ default_format: 'Native', ...parameters });
  const init = { method: 'POST', body: sql, headers: auth(it.reader) };
  return Buffer.from(await (await fetch(`${it.server.url}/?${query}`, init)).arrayBuffer());
}

/** Splits compressed blocks, and checks their checksums. */
function blocksIn(bytes: Buffer): Buffer[] {
  const blocks: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + 16 + bytes.readUInt32LE(at + 17);
    const block = bytes.subarray(at, end);
    expect(cityHash128(block.subarray(16)).toString('hex')).toBe(block.subarray(0, 16).toString('hex'));
    blocks.push(block);
    at = end;
  }
  return blocks;
}

test('the checksum of a block equals ClickHouse’s own for blocks of all lengths', async () => {
  await it.ask('CREATE TABLE lengths (s String CODEC(NONE)) ENGINE = StripeLog');
  const rows = [0, 1, 3, 9, 31, 63, 64, 95, 127, 128, 160, 255, 1_000, 70_000];
  for (const length of rows) await it.ask(`INSERT INTO lengths SELECT randomString(${length})`);
  const folder = await it.ask("SELECT arrayJoin(data_paths) FROM system.tables WHERE name = 'lengths'");
  const blocks = blocksIn(readFileSync(join(folder.trim(), 'data.bin')));
  expect(new Set(blocks.map(({ length }) => length)).size).toBeGreaterThanOrEqual(rows.length);
});

test.each([0, 1, 5, 14, 15, 269, 270, 524, 900_000])(
  'a text of %d characters is a valid LZ4 block',
  async (length) => {
    const text = 'a'.repeat(length);
    const bytes = await bytesOf(`SELECT repeat('a', ${length}) FORMAT RawBLOB`, { compress: '1' });
    const contents = blocksIn(bytes).map((block) => {
      const data = block.subarray(25);
      const size = block.readUInt32LE(21);
      // A block is one sequence of literals: a token, the rest of a length of 15 or more in steps of 255, and the literals.
      const header = data.subarray(0, data.length - size);
      const steps = header.subarray(1).reduce((sum, step) => sum + step, 0);
      expect([block[16], ((header[0] as number) >> 4) + steps]).toEqual([0x82, size]);
      expect([...header.subarray(1, -1)].every((step) => step === 255)).toBe(true);
      return data.subarray(header.length);
    });
    expect(Buffer.concat(contents).equals(Buffer.from(text))).toBe(true);
  },
);

test('a block has block information, and each column the kind of its serialization', async () => {
  const bytes = await bytesOf("SELECT 1::UInt8 AS a, 'x' AS b", { client_protocol_version: VERSION });
  const info = '010002ffffffff00';
  expect(bytes.toString('hex')).toBe(
    `${info}0201${'0161'}05${Buffer.from('UInt8').toString('hex')}0001${'0162'}06${Buffer.from('String').toString('hex')}000178`,
  );
  const older = await bytesOf("SELECT 1::UInt8 AS a, 'x' AS b", { client_protocol_version: '54405' });
  const plain = await bytesOf("SELECT 1::UInt8 AS a, 'x' AS b", {});
  expect(older.toString('hex')).toBe(`${info}${plain.toString('hex')}`);
});

test('a large result has the same blocks, each with its additional bytes', async () => {
  const sql =
    'SELECT number, toString(number) AS s, [s, s] AS l FROM numbers(300000) SETTINGS max_block_size = 60000';
  const plain = await bytesOf(sql, {});
  const versioned = await bytesOf(sql, { client_protocol_version: VERSION });
  expect(versioned.length - plain.length).toBe(5 * (8 + 3));
});

test('a block is converted equally from chunks of all sizes', async () => {
  const columns = [
    "toString(number) AS s, repeat('x', number * 9) AS long, number::Decimal(30, 3) AS d, toFixedString('ab', 3) AS f",
    '[[s], []] AS l, map(s, number) AS m, toLowCardinality(if(number % 2, NULL, s)) AS lc, [lc] AS lcs',
    "CAST((number, s, 'c, (`'), 'Tuple(`a, (\\\\`b` Nullable(UInt64), c String, e Enum8(\\'c, (`\\' = 1))') AS t",
    '(1, 2)::Point AS p, [t] AS ts, toDateTime64(0, 6) AS at, NULL AS n, number::SimpleAggregateFunction(sum, UInt64) AS a',
  ];
  const sql = `SELECT number, ${columns} FROM numbers(20) SETTINGS max_block_size = 7`;
  const plain = await bytesOf(sql, {});
  const versioned = await bytesOf(sql, { client_protocol_version: VERSION });
  expect(plain.toString()).not.toMatch(/^Code/);
  for (const size of [1, 2, 3, 64, 1_000]) {
    const chunks = Array.from({ length: Math.ceil(plain.length / size) }, (_, at) =>
      plain.subarray(at * size, (at + 1) * size),
    );
    const converted = await Readable.from(nativeBlocks(Readable.from(chunks), Number(VERSION))).toArray();
    expect(Buffer.concat(converted).equals(versioned)).toBe(true);
  }
});

test('an empty result can be converted', async () => {
  const empty = await bytesOf('SELECT number FROM numbers(0)', { client_protocol_version: VERSION });
  expect(empty.length).toBe(0);
});

test('a response with zstd is one frame, because clients stop after the first', async () => {
  const sql = 'SELECT number FROM numbers(50000) SETTINGS max_block_size = 1000';
  const url = `${it.server.url}/?default_format=Native&client_protocol_version=${VERSION}&query=${sql}`;
  const headers = { ...auth(it.reader), 'accept-encoding': 'zstd' };
  for (let round = 0; round < 5; round += 1) {
    const [response] = (await once(get(url, { headers }), 'response')) as [IncomingMessage];
    const bytes = Buffer.concat(await response.toArray());
    expect(bytes.lastIndexOf(Buffer.from('28b52ffd', 'hex'))).toBe(0);
  }
});

test.each([
  'sumState(1)',
  '1::Variant(UInt8, String)',
  '1::Dynamic',
  "'{}'::JSON",
  // The rows of the first column are longer than the bytes that the HTTP server reads at once.
  "repeat('x', 1000000), sumState(1)",
])('a type that cannot be converted is an error and no damaged result: %s', async (value) => {
  const error = await bytesOf(`SELECT ${value} AS v`, { client_protocol_version: VERSION });
  expect(error.toString()).toMatch(/^Code: 48\. .*cannot send the type .*toString/);
});

test('a type with a long name is an error, and does not stop other requests', async () => {
  const name = "concat(repeat('Array(', 60), 'Enum8(\\'', repeat(',', 1000000), '\\' = 1)', repeat(')', 60))";
  const error = await bytesOf(`SELECT CAST([], ${name}) AS v`, { client_protocol_version: VERSION });
  expect(error.toString()).toMatch(/^Code: 48\. .*name of a type is longer than 65536 bytes/);
});
