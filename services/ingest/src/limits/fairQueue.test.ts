/** Tests the sharing of ClickHouse between tenants. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { yieldToEventLoop } from '@questlog/runtime/process/waiting';
import { expect, test } from 'vitest';
import { fairLookups, fairReads } from './fairSharing.ts';

const PROJECTS = new Map([
  ...['g', 'g2', 'g3', 'g4'].map((id) => [id, { tenantId: 'greedy' }] as const),
  ['o', { tenantId: 'other' }],
]);
const GREEDY = { tenantId: 'greedy', projectId: 'g' };

/** Queries in the order in which they reached ClickHouse. Each query has a function that answers the query. */
function aStore(
  where: { isEngineLocal: boolean; cores?: number } = { isEngineLocal: false },
  sharing: typeof fairReads | typeof fairLookups = fairReads,
) {
  const begun: { whose: string; answer(): void }[] = [];
  const store = {
    query: (whose: string) => new Promise((resolve) => begun.push({ whose, answer: () => resolve([]) })),
  } as unknown as Store;
  const shared = sharing(store, PROJECTS, where);
  return { begun, shared };
}

test.each([
  [1, 2],
  [2, 2],
  [4, 4],
  [64, 5],
])('with ClickHouse on the same %i cores, a tenant runs %i reads at once', async (cores, ofOne) => {
  const { begun, shared } = aStore({ isEngineLocal: true, cores });
  for (let i = 0; i < 20; i += 1) void shared.query('greedy', GREEDY);
  await yieldToEventLoop();
  expect(begun).toHaveLength(ofOne);
});

test('does not limit reads by local cores if ClickHouse is remote', async () => {
  const { begun, shared } = aStore({ isEngineLocal: false, cores: 1 });
  for (const whose of ['a', 'b', 'c', 'd', 'e', 'f', 'g']) void shared.query(whose, { tenantId: whose });
  await yieldToEventLoop();
  expect(begun).toHaveLength(6);
});

test('lookups of one tenant leave a slot to others, and the process’s own queries do not wait', async () => {
  const { begun, shared } = aStore(undefined, fairLookups);
  for (const projectId of ['g', 'g2', 'g3', 'g4']) void shared.query('greedy', { projectId });
  void shared.query('other', { projectId: 'o' });
  void shared.query('the process', {});
  await yieldToEventLoop();
  expect(begun.map(({ whose }) => whose).sort()).toEqual(['greedy', 'greedy', 'other', 'the process']);
});

test('starts a tenant’s read at once while another tenant uses its maximum', async () => {
  const { begun, shared } = aStore({ isEngineLocal: true, cores: 1 });
  for (let i = 0; i < 100; i += 1) void shared.query('greedy', GREEDY);
  await yieldToEventLoop();
  const atOnce = begun.length;
  for (let i = 0; i < 3; i += 1) {
    void shared.query('other', { projectId: 'o' });
    await yieldToEventLoop();
    expect(begun.slice(atOnce).map(({ whose }) => whose)).toEqual(Array(i + 1).fill('other'));
    begun.at(-1)?.answer();
    await yieldToEventLoop();
  }
});

test('serves a tenant’s read next, for any number of waiting reads of another tenant', async () => {
  const { begun, shared } = aStore();
  void shared.query('third', { tenantId: 'third' });
  for (let i = 0; i < 100; i += 1) void shared.query('greedy', GREEDY);
  for (const whose of ['fourth', 'other']) void shared.query(whose, { tenantId: whose });
  await yieldToEventLoop();
  expect(begun.map(({ whose }) => whose)).toEqual(['third', ...Array(4).fill('greedy'), 'fourth']);
  begun[1]?.answer();
  await yieldToEventLoop();
  expect(begun.slice(6).map(({ whose }) => whose)).toEqual(['other']);
});

test('serves tenants in turn, and each tenant’s reads in order', async () => {
  const { begun, shared } = aStore();
  for (let i = 0; i < 50; i += 1) void shared.query(`greedy ${i}`, GREEDY);
  for (const name of ['a', 'b', 'a', 'b']) void shared.query(name, { tenantId: name });
  await yieldToEventLoop();
  for (let i = 0; i < begun.length; i += 1) {
    begun[i]?.answer();
    await yieldToEventLoop();
  }
  const order = begun.map(({ whose }) => whose);
  expect(order.slice(0, 12).filter((whose) => !whose.startsWith('greedy'))).toEqual(['a', 'b', 'a', 'b']);
  const ofGreedy = order.filter((whose) => whose.startsWith('greedy'));
  expect(ofGreedy).toEqual(Array.from({ length: 50 }, (_, i) => `greedy ${i}`));
});

test('a failed read frees its slot, and only the tenant with too many waiting reads is rejected', async () => {
  const { begun, shared } = aStore();
  const rejecting = { ...shared, query: () => Promise.reject(new Error('no')) };
  const failing = fairReads(rejecting, PROJECTS, { isEngineLocal: false });
  for (let i = 0; i < 20; i += 1) await expect(failing.query('', GREEDY)).rejects.toThrow('no');

  const asked = Array.from({ length: 300 }, () =>
    shared.query('greedy', GREEDY).catch((error) => error.name),
  );
  await yieldToEventLoop();
  expect(await Promise.race([asked.at(-1), yieldToEventLoop()])).toBe('Unavailable');
  void shared.query('other', { projectId: 'o' });
  await yieldToEventLoop();
  expect(begun.at(-1)?.whose).toBe('other');
});
