/** Tests the lag that an ingest reports for groups whose processes are down. */

import { listenForHealth } from '@questlog/runtime/http/healthRoutes';
import { aLog, ManualClock } from '@questlog/runtime/log/embedded/testing/testLog';
import type { Log } from '@questlog/runtime/log/log';
import { withMethods } from '@questlog/runtime/log/testing/alteredLog';
import { Unavailable } from '@questlog/runtime/process/errors';
import { createHealth } from '@questlog/runtime/process/health';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { operationsMetrics } from './metrics.ts';
import { watchLag } from './watchLag.ts';

const GROUP = GROUPS.projectEvents;
const HOUR_S = 3_600;

test('while the projector is down, its lag grows in the metrics and is a warning; both end when the projector runs', async () => {
  const { append, commit, later, lag, readiness } = await anIngest();
  await append(2);
  await expect.poll(lag).toMatchObject({ records: 2, seconds: 0 });
  expect(await readiness()).toEqual({ status: 200, warning: undefined });

  later(60);
  await append(3);
  await expect.poll(lag).toMatchObject({ records: 5, seconds: 60, retention_ratio: 60 / (7 * 24 * HOUR_S) });
  const warning = `${GROUP} has not advanced on ${TOPICS.events}/0 since offset 0, and is 5 records behind`;
  await expect.poll(readiness).toEqual({ status: 200, warning });

  await commit(5);
  await expect.poll(lag).toMatchObject({ records: 0, seconds: 0, retention_ratio: 0 });
  await expect.poll(readiness).toEqual({ status: 200, warning: undefined });
});

test('warns about a group that makes progress but is behind by a tenth of the retention time', async () => {
  const { append, commit, later, readiness } = await anIngest();
  await append(3);
  await commit(1);
  later(20 * HOUR_S);
  await commit(2);
  const warning = `${GROUP} is 20 h behind on ${TOPICS.events}, which is 12 % of the retention time of the topic`;
  await expect.poll(readiness).toEqual({ status: 200, warning });
  await commit(3);
  await expect.poll(readiness).toEqual({ status: 200, warning: undefined });
});

test('keeps warning about a lag of more than half of the retention time after the lag has ended', async () => {
  const { append, commit, later, readiness, log } = await anIngest();
  await append(1);
  later(83 * HOUR_S);
  await expect.poll(readiness).toMatchObject({ warning: expect.stringContaining('behind') });
  await commit(1);
  await expect.poll(readiness).toEqual({ status: 200, warning: undefined });
  await append(1);
  later(85 * HOUR_S);
  await expect.poll(readiness).toMatchObject({ warning: expect.stringContaining('behind') });
  await commit(2);
  const warning = `${GROUP} was up to 85 h behind on ${TOPICS.events} since this ingest started. The log keeps records for only 168 h, which is less than twice that lag`;
  await expect.poll(readiness).toEqual({ status: 200, warning });

  // Simulates an operator who increases the retention time.
  log.keptMs = 171 * HOUR_S * 1000;
  later(60);
  await expect.poll(readiness).toEqual({ status: 200, warning: undefined });
});

test.each(['silent', 'failing'] as const)(
  'while the log is %s, the last lag stays, with its time',
  async (how) => {
    const { append, later, lag, log } = await anIngest();
    await append(2);
    await expect.poll(lag).toMatchObject({ records: 2 });
    const before = await lag();
    const asked = log.asked;
    log.is = how;
    later(HOUR_S);
    await append(1);
    await expect.poll(() => log.asked).toBeGreaterThanOrEqual(asked + GROUPS_AND_TOPICS);
    expect(await lag()).toEqual(before);
    log.is = 'there';
    log.answers.resolve();
    const timestamp = Number(before['timestamp_seconds']) + HOUR_S;
    await expect.poll(lag).toMatchObject({ records: 3, timestamp_seconds: timestamp });
  },
);

const GROUPS_AND_TOPICS = 6;

/** Starts an ingest with a manual clock. The ingest measures the lag every few milliseconds. */
async function anIngest() {
  const clock = new ManualClock();
  const whole = await aLog({ clock });
  await whole.ensureTopics(topicDefinitions(1));
  const outage = {
    is: 'there' as 'there' | 'silent' | 'failing',
    asked: 0,
    keptMs: undefined as number | undefined,
    answers: Promise.withResolvers<void>(),
  };
  const log: Log = withMethods(whole, {
    retention: async (topic) => ({
      ...(await whole.retention(topic)),
      ...(outage.keptMs && { retentionMs: outage.keptMs }),
    }),
    committed: async (group, topic) => {
      outage.asked += 1;
      if (outage.is === 'silent') await outage.answers.promise;
      if (outage.is === 'failing') throw new Unavailable('no broker answers');
      return await whole.committed(group, topic);
    },
  });
  const registry = createMetricsRegistry();
  const health = createHealth();
  onTestFinished(watchLag({ log, clock, health, metrics: operationsMetrics(registry) }, 5));
  const { port, close } = await listenForHealth(
    { health, logger: silentLogger, metrics: { exposition: registry } },
    { host: '127.0.0.1', port: 0, settings: { host: '', port: '' } },
  );
  onTestFinished(close);
  const get = (path: string) => fetch(`http://127.0.0.1:${port}${path}`);
  return {
    log: outage,
    append: (count: number) =>
      whole.append(
        TOPICS.events,
        0,
        Array.from({ length: count }, () => ({ key: null, value: Buffer.from('it') })),
      ),
    later: (seconds: number) => {
      clock.nowMs += seconds * 1000;
    },
    /** Commits an offset as the projector does. */
    commit: async (offset: number) => {
      const done = Promise.withResolvers<void>();
      const process: Parameters<Log['consume']>[0]['process'] = async (owned) => {
        await owned.commit(TOPICS.events, { offset, metadata: '' });
        done.resolve();
      };
      const consumer = await whole.consume({ group: GROUP, topics: [TOPICS.events], process });
      await done.promise;
      await consumer.stop();
    },
    /** Returns the lag metrics of the group. The key is the last part of the metric's name. */
    lag: async (): Promise<Record<string, number>> => {
      const text = await (await get('/metrics')).text();
      const lines = text.matchAll(/^questlog_group_lag_(\w+)\{group="([^"]+)",topic="[^"]+"\} (\S+)$/gm);
      return Object.fromEntries(
        [...lines].flatMap(([, name = '', group, value]) => (group === GROUP ? [[name, Number(value)]] : [])),
      );
    },
    readiness: async () => {
      const response = await get('/readyz');
      const { warnings = {} }: { warnings?: Record<string, string> } = JSON.parse(await response.text());
      return { status: response.status, warning: warnings[GROUP] };
    },
  };
}
