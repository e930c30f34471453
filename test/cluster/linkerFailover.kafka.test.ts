/**
 * Tests that another linker takes over all partitions of a dead linker within the time limit. No link may be lost or duplicated.
 */
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { expect, test } from 'vitest';
import { FAILOVER_WITHIN_MS, measureFailover } from '../bench/failover/linkerFailover.ts';

/** Number of partitions and size of the changelog. The benchmark uses 100 partitions and 1 GiB. */
const [PARTITIONS, CHANGELOG_BYTES] = [12, 32 * 1024 ** 2];

describeKafka('a failover of the linker', ({ brokers }) => {
  test('ends within the time limit with an uncompacted changelog, and links each event once', async () => {
    const figures = await measureFailover({
      brokers,
      partitions: PARTITIONS,
      changelogBytes: CHANGELOG_BYTES,
      withinMs: FAILOVER_WITHIN_MS,
    });
    expect(figures.peakBytes).toBeGreaterThan(0);
  });
});
