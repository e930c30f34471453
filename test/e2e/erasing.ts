/** Functions that the erasure tests share. They request an erasure, wait for its end, and count the remaining rows. */
import { expect } from 'vitest';
import { eventually, type TestProject } from './builders.ts';
import type { Product } from './product.ts';
import { questlogCommand, reaching } from './questlogCommand.ts';

export const ERASURES = '/admin/erasures';
export const TABLES = ['events', 'sessions', 'report_versions', 'report_link_versions'];
const DONE_WITHIN_MS = 240_000;

/**
 * Makes ClickHouse delete replaced parts after one second. By default, ClickHouse keeps such parts for minutes. An erasure does
 * not change a setting that is already shorter than its own.
 */
export async function shortenPartLifetime(product: Product): Promise<void> {
  for (const table of [...TABLES, 'expired_sessions'])
    await change(product, `ALTER TABLE ${table} MODIFY SETTING old_parts_lifetime = 1`);
}

/** Runs a statement as a user of ClickHouse that can change tables. @returns the text of the answer */
export async function change(product: Product, sql: string): Promise<string> {
  const { url, database, username, password } = product.credentials.clickhouse;
  const headers = { 'X-ClickHouse-User': username, 'X-ClickHouse-Key': password };
  const answer = await fetch(`${url}/?database=${database}`, { method: 'POST', headers, body: sql });
  const text = await answer.text();
  expect([answer.status, text]).toEqual([200, expect.any(String)]);
  return text;
}

export async function erase(product: Product, body: object): Promise<string> {
  const answer = await product.admin('POST', ERASURES, body);
  expect(answer.status, answer.text()).toBe(202);
  return answer.json().id;
}

/** Waits until the erasure is done. @returns the receipt of the erasure */
export async function waitUntilDone(product: Product, id: string) {
  const poll = async () => (await product.admin('GET', `${ERASURES}/${id}`)).json();
  const erasure = await eventually(
    poll,
    ({ state }) => state === 'done' || state === 'failed',
    DONE_WITHIN_MS,
  );
  expect(erasure).toMatchObject({ state: 'done', problem: null });
  return erasure.receipt;
}

/** Returns a checksum of all rows of a project. */
export async function checksumOf(product: Product, { projectId }: TestProject): Promise<unknown> {
  const sums = TABLES.map(
    (table) =>
      `(SELECT (count(), sum(cityHash64(*))) FROM ${table} WHERE project_id = '${projectId}') AS of_${table}`,
  );
  return await product.sql(`SELECT ${sums.join(', ')}`);
}

/** Returns the numbers of rows of a project: events, sessions, reports, and links. */
export async function countsOf(product: Product, { projectId }: TestProject): Promise<number[]> {
  const counts = TABLES.map(
    (table) => `(SELECT count() FROM ${table} WHERE project_id = '${projectId}') AS of_${table}`,
  );
  const [row = {}] = await product.sql(`SELECT ${counts.join(', ')}`);
  return TABLES.map((table) => Number(row[`of_${table}`]));
}

/** Waits until ClickHouse has `count` rows of the project in a table. By default, the table contains the events. */
export async function waitForRows(
  product: Product,
  { projectId }: TestProject,
  count: number,
  table = 'events',
): Promise<void> {
  const poll = () =>
    product.sql<{ n: string }>(`SELECT count() AS n FROM ${table} WHERE project_id = '${projectId}'`);
  await eventually(poll, ([row]) => Number(row?.n) === count);
}

export async function expectVerified(product: Product): Promise<void> {
  const { projectId, token } = { projectId: '', token: product.credentials.token };
  const env = reaching(product, { projectId, token } as never, product.dataDir);
  const { code, stdout, stderr } = await questlogCommand(['verify', '--from', '30m'], { env });
  expect({ code, stdout, stderr }).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('nothing differs'),
  });
}
