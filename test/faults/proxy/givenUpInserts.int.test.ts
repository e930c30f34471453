/** Tests a load balancer that times out inserts: each block is visible once and counted once. */
import { randomUUID } from 'node:crypto';
import { type Bench, openBench } from '@questlog/projector/testing/projectorBench';
import { openStore } from '@questlog/runtime/clickhouse/store';
import { anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type InsertFault, startClickHouseProxy } from './clickhouseProxy.ts';

let bench: Bench;

beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());

test.each<[string, InsertFault]>([
  ['events', 'givenUp'],
  ['events', 'late'],
  ['appends', 'late'],
  ['quota_usage_by_partition', 'late'],
])('an insert into %s that is answered with a 504 and runs on (%s) is visible once', async (table, fault) => {
  const { proxy, store } = await throughProxy();
  const project = await anAppendedProject();
  const plan = proxy.plan({ fault, table, when: (nth) => nth === 1 });
  await bench.projectAll(store);
  expect(plan.hits).toBe(1);
  // ClickHouse answers after the rows are stored.
  expect(await plan.release()).toEqual([200]);
  expect(await countsOf(project)).toEqual({ rows: 5, ids: 5, appends: 2, minutes: 5, used: 5 });
});

test('waits for a ClickHouse that rejects all requests, and writes the waiting events once', async () => {
  const { proxy, store } = await throughProxy();
  const projector = await bench.start(store);
  onTestFinished(() => projector.stop());
  const refusal = proxy.refuse();
  const project = await anAppendedProject();
  await expect.poll(() => refusal.refused).toBeGreaterThan(3);
  refusal.mend();
  const rows = async () => (await countsOf(project))['minutes'];
  await Promise.race([expect.poll(rows, { timeout: 20_000 }).toBe(5), projector.failed]);
  expect(await countsOf(project)).toEqual({ rows: 5, ids: 5, appends: 2, minutes: 5, used: 5 });
});

async function throughProxy() {
  const proxy = await startClickHouseProxy(bench.access.url);
  const store = openStore({ ...bench.access, url: proxy.url });
  onTestFinished(async () => {
    await store.close();
    proxy.close();
  });
  return { proxy, store };
}

/** Appends five events in two appends. @returns a project, and a tenant with the same id */
async function anAppendedProject(): Promise<string> {
  const project = randomUUID();
  const of = { tenantId: project, projectId: project, receivedAt: Date.now() };
  const messages = [
    [{}, {}],
    [{}, {}, {}],
  ].map((events) => anEventsAccepted({ ...of, events }));
  await bench.append(TOPICS.events, eventsAccepted, messages);
  return project;
}

async function countsOf(project: string): Promise<Record<string, number>> {
  const [row] = await bench.store.query<Record<string, string>>(
    `SELECT (SELECT count() FROM events WHERE project_id = {project:UUID}) AS rows,
            (SELECT uniqExact(id) FROM events WHERE project_id = {project:UUID}) AS ids,
            (SELECT count() FROM appends WHERE project_id = {project:UUID}) AS appends,
            (SELECT sum(count) FROM event_counts_by_minute WHERE project_id = {project:UUID}) AS minutes,
            (SELECT sum(used) FROM quota_usage WHERE tenant_id = {project:UUID}) AS used`,
    { project },
  );
  return Object.fromEntries(Object.entries(row ?? {}).map(([name, count]) => [name, Number(count)]));
}
