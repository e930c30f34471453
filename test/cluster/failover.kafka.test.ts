/**
 * Tests that another linker takes over all partitions of a dead linker within the time limit. No link may be lost or duplicated.
 */
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { test } from 'vitest';
import { failOver } from './linkerFailover.ts';

const [PARTITIONS, CHANGELOG_BYTES] = [12, 32 * 1024 ** 2];
/** Maximum time of a start and of the failover. */
const WITHIN_MS = 60_000;

describeKafka('a failover of the linker', ({ brokers }) => {
  test('ends within the time limit with an uncompacted changelog, and links each event once', async () => {
    await failOver({
      brokers,
      partitions: PARTITIONS,
      changelogBytes: CHANGELOG_BYTES,
      withinMs: WITHIN_MS,
    });
  });
});
