/** Tests the limits of memory, time, and concurrency, and clients that disconnect. */

import { hash } from 'node:crypto';
import { readdir, readlink } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { messageOf } from '../../../process/errors.ts';
import { aClickHouse, auth, type TestServer } from '../testing/aClickHouse.ts';
import * as limits from './limits.ts';

let it: TestServer;
const broken: string[] = [];
const PASSWORD = 'studio';
beforeAll(async () => {
  const studios = new Map(['reader-1', 'reader-2'].map((username) => [username, aStudio(username)]));
  it = await aClickHouse({ onBroken: (why) => broken.push(why), studios, studioQuotaSeconds: 1 });
});
afterAll(() => it[Symbol.asyncDispose]());

function get(path: string, init: RequestInit = {}): Promise<Response> {
  return fetch(`${it.server.url}${path}`, { headers: auth(it.server), ...init });
}

test('kills a query whose client has disconnected', async () => {
  const controller = new AbortController();
  const sql = 'SELECT sum(sipHash64(number)) FROM numbers(100000000000)';
  const asked = get('/', { method: 'POST', body: sql, signal: controller.signal }).catch(() => 'aborted');
  const running = () => it.number("SELECT count() FROM system.processes WHERE query LIKE 'SELECT sum(sip%'");
  await expect.poll(running).toBe(1);
  controller.abort();
  expect(await asked).toBe('aborted');
  await expect.poll(running, { timeout: 5000 }).toBe(0);
});

test('a reader cancels its own query by id, but no query of another account', async () => {
  const sql = 'SELECT sum(sipHash64(number)) FROM numbers(100000000000)';
  const running = () => it.number("SELECT count() FROM system.processes WHERE query LIKE 'SELECT sum(sip%'");
  const controller = new AbortController();
  const init = { method: 'POST', body: sql, signal: controller.signal };
  const product = get('/?query_id=product', init).catch(() => 'aborted');
  await expect.poll(running).toBe(1);
  await it.askAsReader("KILL QUERY WHERE query_id = 'product'");
  const reader = it.askAsReader(sql, { query_id: 'reader' }).catch(messageOf);
  await expect.poll(running).toBe(2);
  await it.askAsReader("KILL QUERY WHERE query_id = 'reader'");
  expect(await reader).toMatch(/^Code: 394/);
  expect(await running()).toBe(1);
  controller.abort();
  expect(await product).toBe('aborted');
  await expect.poll(running).toBe(0);
});

test('spills a grouping larger than its memory to disk', async () => {
  const grouped = 'SELECT hex(sipHash128(number)) AS s, count() AS c FROM numbers(2000000) GROUP BY s';
  const sql = `SELECT max(c), count() FROM (${grouped})`;
  const memory = { max_memory_usage: '150000000' };
  expect(await it.ask(sql, memory)).toBe('1\t2000000\n');
  expect(await it.askAsReader(sql)).toBe('1\t2000000\n');
  const inMemory = {
    ...memory,
    max_bytes_before_external_group_by: '0',
    max_bytes_ratio_before_external_group_by: '0',
  };
  await expect(it.ask(sql, inMemory)).rejects.toThrow(/MEMORY_LIMIT_EXCEEDED/);
});

test('spills a reader’s join above its memory limit to disk', async () => {
  const side = 'SELECT number, hex(sipHash128(number)) AS s FROM numbers(1000000)';
  const joined = `SELECT count() FROM (${side}) AS a JOIN (${side}) AS b USING number WHERE a.s = b.s`;
  expect(await it.askAsReader(joined)).toBe('1000000\n');
  const either =
    'SELECT count() FROM numbers(9) AS a JOIN numbers(300000) AS b ON a.number = b.number OR a.number + 1 = b.number';
  // This join is a hash join, because a grace join does not support OR.
  await expect(it.askAsReader(either)).rejects.toThrow(/Limit for JOIN exceeded/);
  expect(await it.askAsReader(`${either} SETTINGS max_bytes_in_join = 60000000`)).toBe('18\n');
});

test('readers leave capacity for a query of the product, and have enough for analytics', async () => {
  const readers = limits.PROCESS_CONCURRENT_READERS * limits.MAX_READER_MEMORY_BYTES;
  expect(readers + limits.MAX_QUERY_MEMORY_BYTES).toBeLessThanOrEqual(limits.MAX_ENGINE_MEMORY_BYTES);
  const rows = 'SELECT number, hex(sipHash64(number)) AS s FROM numbers(1000000)';
  for (const [sql, answer] of [
    [
      `SELECT uniqExact(number % 200000), uniq(s) > 0, quantileExact(0.5)(number) FROM (${rows})`,
      '200000\t1\t500000\n',
    ],
    [`SELECT number FROM (${rows}) ORDER BY s DESC LIMIT 1 OFFSET 900000`, /^\d+\n$/],
    [
      `SELECT count() FROM (${rows}) AS a JOIN (SELECT number FROM numbers(200000)) AS b USING number`,
      '200000\n',
    ],
  ] as const) {
    expect(await it.askAsReader(sql)).toMatch(answer);
  }
});

test('the engine keeps no logs of its own that would grow without limit', async () => {
  await it.ask('SYSTEM FLUSH LOGS');
  const logs = "SELECT name FROM system.tables WHERE database = 'system' AND engine LIKE '%MergeTree'";
  expect(await it.ask(logs)).toBe('');
});

test('a query has a time limit', async () => {
  await expect(
    it.ask('SELECT sum(sipHash64(number)) FROM numbers(100000000000)', { max_execution_time: '1' }),
  ).rejects.toThrow(/Code: 159.*TIMEOUT_EXCEEDED/);
});

test('an account of a studio has an hourly quota', async () => {
  const ask = async (username: string, body: string) =>
    await (await get('/', { method: 'POST', body, headers: auth({ username, password: PASSWORD }) })).text();
  await ask('reader-1', 'SELECT sleep(1.5)');
  expect(await ask('reader-1', 'SELECT 1')).toMatch(
    /^Code: 201.*execution_time = 1\.\d+\/1\. .*QUOTA_EXCEEDED/,
  );
  expect(await ask('reader-2', 'SELECT 1')).toBe('1\n');
});

test('rejects requests of a studio above the limit with error 202, without effect on others', async () => {
  const askAll = (count: number, body: string, account?: Parameters<typeof auth>[0]) => {
    const ask = async () => {
      const headers = account && { headers: auth(account) };
      const response = await get('/', { method: 'POST', body, ...headers });
      await response.arrayBuffer();
      return response.status;
    };
    return Promise.all(Array.from({ length: count }, ask));
  };
  const slow = askAll(3, 'SELECT sleep(1.5)');
  const ofStudio = askAll(300, 'SELECT 1', { username: 'reader-2', password: PASSWORD });
  expect(new Set(await askAll(100, 'SELECT 1'))).toEqual(new Set([200]));
  expect(await ofStudio).toContain(503);
  expect(await slow).toEqual([200, 200, 200]);
  expect(await it.ask('SELECT 1')).toBe('1\n');
});

test('releases a large response that its client stopped reading', async () => {
  for (let round = 0; round < 5; round += 1) {
    const controller = new AbortController();
    const response = await get('/?query=SELECT+*+FROM+numbers(3000000)', { signal: controller.signal });
    await response.body?.getReader().read();
    controller.abort();
  }
  const held = async () => (await openFiles()).filter((name) => name.includes('outgoing'));
  await expect.poll(held).toEqual([]);
  expect(await it.ask('SELECT 1')).toBe('1\n');
});

test.each(["SELECT throwIf(1, 'shutting down')", "SELECT 1 WHERE nosuch LIKE '%server is shutting down%'"])(
  'an error with the text of the query does not end the engine: %s',
  async (sql) => {
    await expect(it.ask(sql)).rejects.toThrow(/shutting down/);
    expect(broken).toEqual([]);
  },
);

test('rejects a reader’s request by its length before reading it', async () => {
  const error = await it.askAsReader(`SELECT '${'x'.repeat(limits.MAX_READER_TEXT_BYTES)}'`).catch(messageOf);
  expect(error).toMatch(/^Code: 91.*longer than 262144 bytes/);
});

function aStudio(username: string) {
  const ids = { tenantId: 'aaaaaaaa-0000-4000-8000-000000000001', projectId: null };
  return { username, sha256: hash('sha256', PASSWORD), ...ids, expiresAt: null };
}

/** Returns the targets of this process's file descriptors. Returns an empty list if /proc does not exist. */
async function openFiles(): Promise<string[]> {
  const names = await readdir('/proc/self/fd').catch(() => []);
  return Promise.all(names.map((name) => readlink(`/proc/self/fd/${name}`).catch(() => '')));
}
