/** Tests the session filter that the partitions of a process share. */
import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import { systemClock } from '@questlog/runtime/process/clock';
import { topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { LINKER_BOUNDS, LinkerState } from './core/linkerState.ts';
import { sharedDeps } from './linker.ts';
import { partitionDeps, silentStore } from './testing/partitionDeps.ts';

const PARTITIONS = 20;

test('partitions that are assigned at the same time share one query', async () => {
  const { shared, reports, asked } = await aProcess();
  reports.push(randomUUID());
  await Promise.all(Array.from({ length: PARTITIONS }, () => shared.sessions.load()));
  expect(asked()).toBe(1);
});

test('a partition that is assigned later queries again, because another process may have closed a report meanwhile', async () => {
  const { shared, reports, aState } = await aProcess();
  const [early, late, never] = [randomUUID(), randomUUID(), randomUUID()];
  reports.push(early);
  const first = aState(0);
  if (await shared.sessions.load()) first.sessionsWithReports.complete();
  reports.push(late);
  const second = aState(1);
  const known = () => [early, late, never].map((id) => second.sessionsWithReports.mayContain(id));
  expect(known()).toEqual([true, true, true]);
  if (await shared.sessions.load()) second.sessionsWithReports.complete();
  expect(known()).toEqual([true, true, false]);
});

test('with more sessions than the filter supports, every session may have a report', async () => {
  const { shared, reports } = await aProcess(1);
  reports.push(randomUUID(), randomUUID());
  expect(await shared.sessions.load()).toBe(false);
});

/** Returns dependencies with a ClickHouse that contains the sessions of `reports`. */
async function aProcess(sessionsWithReports = 100) {
  const log = await aLog({ clock: systemClock });
  await log.ensureTopics(topicDefinitions(1));
  const reports: string[] = [];
  let asked = 0;
  const query = async (sql: string): Promise<unknown[]> => {
    if (!sql.includes('uniq(')) return reports.map((id) => ({ id }));
    asked += 1;
    return [{ sessions: String(reports.length) }];
  };
  const store = { ...silentStore, query } as Store;
  const bounds = { ...LINKER_BOUNDS, sessionsWithReports };
  const shared = sharedDeps({ ...(await partitionDeps(log)), store, bounds });
  const aState = (partition: number) =>
    new LinkerState(partition, PARTITIONS, bounds, shared.sessions.filter);
  return { shared, reports, aState, asked: () => asked };
}
