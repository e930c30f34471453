/** ClickHouse has room for some reads at once: all of one tenant's where nobody else waits. */
import type { Store } from '@questlog/runtime/clickhouse/store';
import { nextTurn } from '@questlog/runtime/process/waiting';
import { expect, test } from 'vitest';
import { sharedReads } from './shares.ts';

const PROJECTS = new Map([
  ['g', { tenantId: 'greedy' }],
  ['o', { tenantId: 'other' }],
]);
const GREEDY = { tenantId: 'greedy', projectId: 'g' };

/** Queries in the order in which they reached ClickHouse, each with a way to answer it. */
function aStore(cores?: number) {
  const begun: { whose: string; answer(): void }[] = [];
  const store = {
    query: (whose: string) => new Promise((resolve) => begun.push({ whose, answer: () => resolve([]) })),
  } as unknown as Store;
  const shared = sharedReads(store, PROJECTS, cores);
  return { begun, shared };
}

test('a tenant’s read is next, however many of another tenant wait', async () => {
  const { begun, shared } = aStore();
  for (let i = 0; i < 100; i += 1) void shared.query('greedy', GREEDY);
  await nextTurn();
  const atOnce = begun.length;
  expect(atOnce).toBeGreaterThan(1);
  void shared.query('other', { projectId: 'o' });
  begun[0]?.answer();
  await nextTurn();

  expect(begun.slice(atOnce).map(({ whose }) => whose)).toEqual(['other']);
});

test.each([
  [1, 2],
  [2, 2],
  [4, 4],
  [64, 6],
])(
  'on %i cores %i reads run at once: more would keep writes from a core, and read no faster',
  async (cores, atOnce) => {
    const { begun, shared } = aStore(cores);
    for (let i = 0; i < 20; i += 1) void shared.query('greedy', GREEDY);
    await nextTurn();
    expect(begun).toHaveLength(atOnce);
  },
);

test('tenants take turns, and each one’s reads run in their order', async () => {
  const { begun, shared } = aStore(64);
  for (let i = 0; i < 50; i += 1) void shared.query(`greedy ${i}`, GREEDY);
  for (const name of ['a', 'b', 'a', 'b']) void shared.query(name, { tenantId: name });
  await nextTurn();
  const atOnce = begun.length;
  for (let i = 0; i < 4; i += 1) {
    begun[i]?.answer();
    await nextTurn();
  }
  const later = begun.slice(atOnce).map(({ whose }) => whose);
  expect(later).toEqual(['a', 'b', 'a', 'b']);

  for (let i = 4; i < begun.length; i += 1) {
    begun[i]?.answer();
    await nextTurn();
  }
  const ofGreedy = begun.map(({ whose }) => whose).filter((whose) => whose.startsWith('greedy'));
  expect(ofGreedy).toEqual(Array.from({ length: 50 }, (_, i) => `greedy ${i}`));
});

test('a failed read makes room too; one too many of a tenant is refused, and another’s is not', async () => {
  const { begun, shared } = aStore();
  const failing = sharedReads({ ...shared, query: () => Promise.reject(new Error('no')) }, PROJECTS);
  for (let i = 0; i < 20; i += 1) await expect(failing.query('', GREEDY)).rejects.toThrow('no');

  const asked = Array.from({ length: 300 }, () =>
    shared.query('greedy', GREEDY).catch((error) => error.name),
  );
  await nextTurn();
  expect(await Promise.race([asked.at(-1), nextTurn()])).toBe('Unavailable');
  void shared.query('other', { projectId: 'o' });
  begun[0]?.answer();
  await nextTurn();
  expect(begun.at(-1)?.whose).toBe('other');
});
