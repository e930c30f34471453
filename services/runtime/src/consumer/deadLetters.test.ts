/** Logs name a dead letter's place, never its content. */
import { topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { aLog, ManualClock } from '../log/embedded/testing/testLog.ts';
import { Invalid } from '../process/errors.ts';
import { silentLogger } from '../process/logger.ts';
import { openLogRegistry } from '../registry/logRegistry.ts';
import { openDeadLetters } from './deadLetters.ts';

test('a dead letter is logged without the record, which is the players’ and may be megabytes', async () => {
  const log = await aLog();
  await log.ensureTopics(topicDefinitions(1));
  const said: unknown[] = [];
  const openLetters = await openDeadLetters({
    log,
    registry: await openLogRegistry(log),
    clock: new ManualClock(),
    logger: { ...silentLogger, error: (_, __, fields) => void said.push(fields) },
    group: 'group',
  });
  const value = Buffer.from('a payload');
  const record = { offset: 7, timestampMs: 0, key: 'tenant', value, headers: {} };
  const block = { topic: 'topic', partition: 0, records: [record], start: 7, end: 8 };
  await openLetters().send(block, record, new Invalid('unreadable'), false);
  expect(said).toEqual([{ topic: 'topic', partition: 0, offset: 7, group: 'group' }]);
});
