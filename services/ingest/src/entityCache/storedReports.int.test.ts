/** Tests queries over many reports on the real engine. */
import { randomUUID } from 'node:crypto';
import {
  addLinks,
  addReports,
  numbered,
  sharedStore,
} from '@questlog/runtime/clickhouse/chdb/testing/storedReports';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { aReportLink } from '@questlog/schemas/fixtures/builders';
import { expect, test } from 'vitest';
import { linksOfReport } from './links.ts';
import { storedOpenReports } from './storedReports.ts';

const NOON_MS = Date.UTC(2026, 10, 21, 12);
/** Time at which no report of noon is fresh. */
const LATER_MS = NOON_MS + 60 * 60 * 1000;
const shared = sharedStore();

test('a start reads the latest reports of a day, without duplicates, in small responses', async () => {
  const { store } = shared;
  const projectId = randomUUID();
  const count = 25_000;
  // About three thousand reports share each millisecond, so that pages end between reports of one millisecond.
  await addReports(store, { projectId, count, receivedAt: `${NOON_MS} + intDiv(number, 3000)` });
  const answers: number[] = [];
  const counting = counted(store, answers);
  const found = await storedOpenReports(counting, { sinceMs: NOON_MS - 1, limit: 100_000 });
  const times = found.map(({ receivedAt }) => receivedAt);

  expect(answers).toEqual([10_000, 10_000, 5_000]);
  expect(new Set(found.map(({ reportId }) => reportId)).size).toBe(count);
  expect(times).toEqual(times.toSorted((a, b) => b - a));
  expect(found.at(-1)).toMatchObject({ projectId, sessionId: projectId, windowAfterMs: 60_000 });

  const fewer = await storedOpenReports(store, { sinceMs: NOON_MS - 1, limit: 12_345 });
  expect(fewer).toEqual(found.slice(0, 12_345));
  expect(await storedOpenReports(store, { sinceMs: NOON_MS + 7, limit: 100_000 })).toHaveLength(1_000);
});

test('a report with more links than a response shows is marked as truncated', async () => {
  const { store } = shared;
  const projectId = randomUUID();
  const link = { projectId, state: 'linked', changedAt: NOON_MS } as const;
  await addLinks(store, { ...link, reports: { one: 1, events: 10_000 } });
  await addLinks(store, { ...link, reports: { one: 2, events: 10_001 } });
  const shown = async (number: number, eventIds: string[] = []) => {
    const filed = aReportLink({ projectId, reportId: numbered(number), eventIds });
    const { links, linksTruncated } = await linksOfReport(store, { filed, retractedAt: null }, LATER_MS);
    return [links.length, linksTruncated];
  };

  expect(await shown(1)).toEqual([10_000, false]);
  expect(await shown(2)).toEqual([10_000, true]);
  expect(await shown(1, [randomUUID()])).toEqual([10_000, true]);
  expect(await shown(1, [numbered(7)])).toEqual([10_000, false]);
  expect(await shown(3)).toEqual([0, false]);
});

test('searches the session’s events only for a fresh report', async () => {
  const { store } = shared;
  const filed = aReportLink({ sessionId: randomUUID(), receivedAt: NOON_MS });
  const questions = async (nowMs: number, of = filed): Promise<number> => {
    const answers: number[] = [];
    await linksOfReport(counted(store, answers), { filed: of, retractedAt: null }, nowMs);
    return answers.length;
  };
  expect(await questions(NOON_MS + 59_999)).toBe(2);
  expect(await questions(NOON_MS + 60_000)).toBe(1);
  expect(await questions(NOON_MS, { ...filed, sessionId: null })).toBe(1);
  expect(await questions(NOON_MS, { ...filed, eventIds: [randomUUID()] })).toBe(2);
});

function counted(store: Store, answers: number[]): Store {
  return {
    ...store,
    query: async <Row>(...asked: Parameters<Store['query']>): Promise<Row[]> => {
      const rows = await store.query<Row>(...asked);
      answers.push(rows.length);
      return rows;
    },
  };
}
