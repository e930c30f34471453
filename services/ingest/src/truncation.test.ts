/** Tests how ingest detects and reports truncations of its own appends. */
import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Log } from '@questlog/runtime/log/log';
import type { TruncatedRange } from '@questlog/runtime/log/truncation/participants';
import { Unavailable } from '@questlog/runtime/process/errors';
import { createHealth } from '@questlog/runtime/process/health';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { stopsInTime } from '@questlog/runtime/process/testing/stopsInTime';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { OwnAppends } from './events/ownAppends.ts';
import { ingestMetrics } from './metrics.ts';
import { watchTruncation } from './truncation.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

test('detects a truncation by an append below an earlier one', () => {
  const { cuts, found } = aProcess();
  cuts.ownAppends.confirmed(0, 10, appends(3));
  cuts.ownAppends.confirmed(1, 2, appends(1));
  cuts.ownAppends.confirmed(0, 13, appends(1));
  expect(found).toEqual([]);
  cuts.ownAppends.confirmed(0, 12, appends(1));
  cuts.ownAppends.confirmed(0, 13, appends(1));
  expect(found).toEqual([[0, 12]]);
});

test('detects a truncation by an end offset below an append, unless the next check finds a higher one', async () => {
  const { cuts, found, looked, end } = aProcess({ lookEveryMs: 1 });
  end.offset = 9;
  cuts.ownAppends.confirmed(0, 8, appends(2));
  await looked(1);
  end.offset = 10;
  await looked(3);
  expect(found).toEqual([]);
  end.offset = 9;
  await expect.poll(() => found).toEqual([[0, 9]]);
  await looked(3);
  expect(found).toEqual([[0, 9]]);
});

test('reports a truncation once, also if an append detects it during a check', async () => {
  const { cuts, found, looked, end } = aProcess({ lookEveryMs: 1 });
  end.offset = 9;
  cuts.ownAppends.confirmed(0, 8, appends(5));
  await looked(1);
  end.onLook = () => {
    end.onLook = undefined;
    end.offset = 10;
    cuts.ownAppends.confirmed(0, 9, appends(1));
  };
  await looked(3);
  expect(found).toEqual([[0, 9]]);
});

test('detects a truncation while another partition has no leader', async () => {
  const { cuts, found, end } = aProcess({ lookEveryMs: 1 });
  cuts.ownAppends.confirmed(1, 8, appends(2));
  cuts.ownAppends.confirmed(0, 8, appends(2));
  end.offset = 9;
  await expect.poll(() => found).toEqual([[0, 9]]);
});

test('requests no end offsets before the first append', async () => {
  const [idle, busy] = [aProcess({ lookEveryMs: 1 }), aProcess({ lookEveryMs: 1 })];
  busy.cuts.ownAppends.confirmed(0, 0, appends(1));
  await busy.looked(3);
  expect(idle.end.looks).toBe(0);
});

test('a stop does not wait for silent brokers', async () => {
  const { cuts, looked, end } = aProcess({ lookEveryMs: 1 });
  const silent = Promise.withResolvers<void>();
  onTestFinished(() => silent.resolve());
  end.silence = silent.promise;
  cuts.ownAppends.confirmed(0, 8, appends(2));
  await looked(1);

  expect(await stopsInTime(() => cuts.close())).toBe(true);
});

test('reports unprojected appends of the truncated partition only', async () => {
  const { cuts, told, metrics, store } = aProcess({ lookAfterMs: 0 });
  const [kept, projected, ...lost] = appends(4, 3);
  if (kept === undefined || projected === undefined) throw new Error('four appends');
  store.projected.push(projected.appendId);
  cuts.ownAppends.confirmed(0, 10, [kept, projected, ...lost]);
  cuts.ownAppends.confirmed(1, 20, appends(1));
  cuts.ownAppends.confirmed(0, 11, appends(1));
  await expect.poll(() => store.rows.length).toBe(1);
  const where = { topic: TOPICS.events, partition: 0, offset: 11 };
  const fields = { ...where, appends: 2, events: 6, from: new Date(5), to: new Date(5) };
  expect(told).toEqual([
    ['log_cut_short', where],
    ['acknowledged_appends_lost', fields],
  ]);
  expect((await metrics.lostAppends.get()).values).toMatchObject([
    { value: 2, labels: { topic: TOPICS.events, partition: 0 } },
  ]);
  expect(store.asked).toEqual([projected, ...lost].map(({ appendId }) => appendId));
  // Appends are not reported again by the next truncation.
  cuts.ownAppends.confirmed(0, 11, appends(1));
  await expect.poll(() => store.rows.length).toBe(2);
  expect((await metrics.lostAppends.get()).values).toMatchObject([{ value: 3 }]);
});

test('reports the latest appends if there are more than it remembers', () => {
  const found: (readonly string[])[] = [];
  const own = new OwnAppends((_partition, _offset, lost) => found.push(lost.map(idOf)), 3);
  const all = appends(5);
  for (const [offset, append] of all.entries()) own.confirmed(0, offset, [append]);
  own.setEnd(0, 0);
  expect(found.map((ids) => ids.toSorted())).toEqual([all.slice(2).map(idOf).toSorted()]);
});

const idOf = ({ appendId }: { readonly appendId: string }): string => appendId;

function appends(count: number, events = 1) {
  return Array.from({ length: count }, () => ({ appendId: randomUUID(), events, receivedAt: 5 }));
}

function aProcess({ lookEveryMs = DAY_MS, lookAfterMs = DAY_MS } = {}) {
  const [found, told]: [unknown[], unknown[]] = [[], []];
  const end: { offset: number; looks: number; onLook?: (() => void) | undefined; silence?: Promise<void> } = {
    ...{ offset: 100, looks: 0 },
  };
  const clock = { nowMs: 1, now: () => clock.nowMs };
  const store = {
    ...{ projected: [] as string[], asked: [] as string[], rows: [] as unknown[] },
    query: async <Row>(_: string, { ids = [] }: { ids?: string[] } = {}) => {
      store.asked.push(...ids);
      return ids.filter((id) => store.projected.includes(id)).map((id) => ({ id })) as Row[];
    },
    insert: async (row: unknown) => void store.rows.push(row),
  };
  const log = {
    id: randomUUID(),
    endOffset: async (_topic: string, partition: number) => {
      if (partition !== 0) throw new Unavailable('it has no leader');
      end.looks += 1;
      const { offset } = end;
      end.onLook?.();
      await end.silence;
      return offset;
    },
  } as unknown as Log;
  const [metrics, health] = [ingestMetrics(createMetricsRegistry()), createHealth()];
  const error = (event: string, _: unknown, fields: unknown) => void told.push([event, fields]);
  const logger = { ...silentLogger, error };
  const onTruncated = ({ partition, offset }: TruncatedRange) => void found.push([partition, offset]);
  const cuts = watchTruncation(
    { log, store: store as unknown as Store, logger, metrics, health, clock },
    [{ onTruncated }],
    {
      checkIntervalMs: lookEveryMs,
      checkDelayMs: lookAfterMs,
    },
  );
  onTestFinished(() => cuts.close());
  const looked = async (times: number): Promise<void> => {
    const before = end.looks;
    await expect.poll(() => end.looks, { interval: 1 }).toBeGreaterThanOrEqual(before + times);
  };
  return { cuts, found, told, store, metrics, end, looked };
}
