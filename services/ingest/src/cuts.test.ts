/** How ingest comes upon a cut of what it has appended, and whom it tells. */
import type { Log } from '@questlog/runtime/log/log';
import { Unavailable } from '@questlog/runtime/process/errors';
import { createHealth } from '@questlog/runtime/process/health';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { stopsInTime } from '@questlog/runtime/process/testing/stopsInTime';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { openCuts } from './cuts.ts';
import { ingestMetrics } from './metrics.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

test('an own append that lies before another one tells of a cut there', () => {
  const { cuts, found } = aProcess();
  cuts.own.confirmed(0, 10, 3);
  cuts.own.confirmed(1, 2, 1);
  cuts.own.confirmed(0, 13, 1);
  expect(found).toEqual([]);
  cuts.own.confirmed(0, 12, 1);
  cuts.own.confirmed(0, 13, 1);
  expect(found).toEqual([[0, 12]]);
});

test('an end that is before an own append tells of a cut, unless the next look finds it further on', async () => {
  const { cuts, found, looked, end } = aProcess({ lookEveryMs: 1 });
  end.offset = 9;
  cuts.own.confirmed(0, 8, 2);
  await looked(1);
  end.offset = 10;
  await looked(3);
  expect(found).toEqual([]);
  end.offset = 9;
  await expect.poll(() => found).toEqual([[0, 9]]);
  await looked(3);
  expect(found).toEqual([[0, 9]]);
});

test('a cut is told once, though an own append finds it while the end is asked for', async () => {
  const { cuts, found, looked, end } = aProcess({ lookEveryMs: 1 });
  end.offset = 9;
  cuts.own.confirmed(0, 8, 5);
  await looked(1);
  end.onLook = () => {
    end.onLook = undefined;
    end.offset = 10;
    cuts.own.confirmed(0, 9, 1);
  };
  await looked(3);
  expect(found).toEqual([[0, 9]]);
});

test('a partition without a leader hides no cut of another', async () => {
  const { cuts, found, end } = aProcess({ lookEveryMs: 1 });
  cuts.own.confirmed(1, 8, 2);
  cuts.own.confirmed(0, 8, 2);
  end.offset = 9;
  await expect.poll(() => found).toEqual([[0, 9]]);
});

test('a process that has appended nothing asks for no end', async () => {
  const [idle, busy] = [aProcess({ lookEveryMs: 1 }), aProcess({ lookEveryMs: 1 })];
  busy.cuts.own.confirmed(0, 0, 1);
  await busy.looked(3);
  expect(idle.end.looks).toBe(0);
});

test('a stop does not wait for brokers that are silent', async () => {
  const { cuts, looked, end } = aProcess({ lookEveryMs: 1 });
  const silent = Promise.withResolvers<void>();
  onTestFinished(() => silent.resolve());
  end.silence = silent.promise;
  cuts.own.confirmed(0, 8, 2);
  await looked(1);

  expect(await stopsInTime(() => cuts.close())).toBe(true);
});

test('a cut is told in the log, counted, and a warning for a day', async () => {
  const { cuts, found, told, metrics, health, clock } = aProcess();
  const warning = async () => (await health.state()).warnings['log_cut_short'];
  expect(await warning()).toBeUndefined();
  cuts.onCut({ topic: TOPICS.sessions, partition: 3, offset: 7 });
  expect(told).toMatchObject([['log_cut_short', { topic: TOPICS.sessions, partition: 3, offset: 7 }]]);
  expect((await metrics.logCuts.get()).values).toMatchObject([
    { value: 1, labels: { topic: TOPICS.sessions } },
  ]);
  expect(await warning()).toContain(`${TOPICS.sessions}/3`);
  expect((await health.state()).problems).toEqual({});
  clock.nowMs += DAY_MS;
  expect(await warning()).toBeUndefined();
  // Of sessions nothing is remembered with the events.
  expect(found).toEqual([]);
});

function aProcess({ lookEveryMs = DAY_MS } = {}) {
  const [found, told]: [unknown[], unknown[]] = [[], []];
  const end: { offset: number; looks: number; onLook?: (() => void) | undefined; silence?: Promise<void> } = {
    ...{ offset: 100, looks: 0 },
  };
  const clock = { nowMs: 1, now: () => clock.nowMs };
  const log = {
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
  const onEventsCut = (...cut: number[]) => void found.push(cut);
  const cuts = openCuts({ log, logger, metrics, health, clock, onEventsCut }, lookEveryMs);
  onTestFinished(() => cuts.close());
  const looked = async (times: number): Promise<void> => {
    const before = end.looks;
    await expect.poll(() => end.looks, { interval: 1 }).toBeGreaterThanOrEqual(before + times);
  };
  return { cuts, found, told, metrics, health, clock, end, looked };
}
