/** Tests that parameters reach ClickHouse unchanged. */
import { expect, test } from 'vitest';
import { aClickHouse } from './chdb/testing/aClickHouse.ts';
import { openStore } from './store.ts';

test('passes parameters of all used types, also with special characters and with more bytes than a URL can have', async () => {
  await using server = await aClickHouse();
  const text = '\t\n\r\\ \'quoted\' "ü" \u{1f409} {x:String}\r\n--';
  const many = Array.from({ length: 2_500 }, (_, i) => `${i} ${text}`);
  const { url, username, password } = server.server;
  const store = openStore({ url, username, password, database: 'default' });
  const [row] = await store.query(
    `SELECT {text:String} AS text, {many:Array(String)} AS many, {none:Nullable(String)} AS none, {no:Array(UUID)} AS no,
       {big:UInt64} AS big, {numbers:Array(Int64)} AS numbers, {flags:Array(UInt8)} AS flags`,
    { text, many, none: null, no: [], big: 2n ** 63n, numbers: [-1, 2n ** 62n], flags: [1, 0] },
  );
  await store.close();
  const [big, numbers] = [`${2n ** 63n}`, ['-1', `${2n ** 62n}`]];
  expect(row).toEqual({ text, many, none: null, no: [], big, numbers, flags: [1, 0] });
});
