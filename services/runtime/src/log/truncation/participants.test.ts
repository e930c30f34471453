/** Tests the announcement of truncations to the operator and to the participants. */
import { TOPICS } from '@questlog/schemas/topics/topics';
import { Counter } from 'prom-client';
import { expect, test } from 'vitest';
import { createHealth } from '../../process/health.ts';
import { silentLogger } from '../../process/logger.ts';
import { announceTruncations, type TruncatedRange } from './participants.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

function anAnnouncement() {
  const [logged, informed]: [unknown[], TruncatedRange[]] = [[], []];
  const clock = { nowMs: 1, now: () => clock.nowMs };
  const health = createHealth();
  const logTruncations = new Counter({
    name: 'truncations',
    help: 'help',
    labelNames: ['topic'],
    registers: [],
  });
  const error = (...entry: unknown[]) => void logged.push(entry);
  const { onTruncated } = announceTruncations(
    { logger: { ...silentLogger, error }, clock, health, metrics: { logTruncations } },
    new Map([[TOPICS.events, [{ onTruncated: (range) => void informed.push(range) }]]]),
  );
  const warning = async () => (await health.state()).warnings['log_cut_short'];
  return { clock, health, informed, logged, logTruncations, onTruncated, warning };
}

test('a truncation is logged, counted, and a warning for a day', async () => {
  const { clock, health, logged, logTruncations, onTruncated, warning } = anAnnouncement();
  expect(await warning()).toBeUndefined();
  const range = { topic: TOPICS.sessions, partition: 3, offset: 7 };
  onTruncated(range);
  expect(logged).toEqual([['log_cut_short', expect.stringContaining('no longer has records'), range]]);
  expect((await logTruncations.get()).values).toEqual([{ value: 1, labels: { topic: TOPICS.sessions } }]);
  expect(await warning()).toContain(`24 hours (${TOPICS.sessions}/3)`);
  expect((await health.state()).problems).toEqual({});
  clock.nowMs += DAY_MS - 1;
  expect(await warning()).toBeDefined();
  clock.nowMs += 1;
  expect(await warning()).toBeUndefined();
});

test('a truncation informs only the participants of its topic', () => {
  const { informed, onTruncated } = anAnnouncement();
  onTruncated({ topic: TOPICS.sessions, partition: 0, offset: 1 });
  expect(informed).toEqual([]);
  const range = { topic: TOPICS.events, partition: 2, offset: 1 };
  onTruncated(range);
  expect(informed).toEqual([range]);
});

test('the warning names each truncated partition once, at most five partitions', async () => {
  const { onTruncated, warning } = anAnnouncement();
  for (const partition of [0, 0, 1, 2, 3, 4, 5]) onTruncated({ topic: 't', partition, offset: 1 });
  expect(await warning()).toContain('(t/0, t/1, t/2, t/3, t/4)');
});
