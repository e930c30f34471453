/** One Fetch of one broker for several partitions, and its answer put into their buffers. */
import type { Broker } from 'kafkajs';
import type { KafkaCatalog } from '../topics/catalog.ts';
import { chunkOf, type FetchAnswer, type PartitionAnswer } from './fetchAnswer.ts';
import type { PartitionBuffer } from './partitionBuffer.ts';

/** The broker may wait so long for records, and so may a partition that wants some meanwhile. */
const LONG_POLL_MS = 250;
/** While a partition is left out whose buffer is full: it may want records at any moment. */
const SHORT_POLL_MS = 25;
const TOGETHER = { partitionBytes: 1024 * 1024, answerBytes: 4 * 1024 * 1024 };
/** More than the largest record batch and all that may stand before it without a record. */
const ALONE = { partitionBytes: 32 * 1024 * 1024, answerBytes: 32 * 1024 * 1024 };

/** @throws what kafkajs throws, also when only one of the partitions has an error. */
export async function fetchFrom(
  broker: Broker,
  buffers: readonly PartitionBuffer[],
  { isAnyLeftOut, catalog }: { isAnyLeftOut: boolean; catalog: Pick<KafkaCatalog, 'limits'> },
): Promise<void> {
  const alone = buffers.find(({ isAskedAlone }) => isAskedAlone);
  const asked = (alone === undefined ? buffers : [alone]).map((buffer) => ({
    buffer,
    offset: buffer.fetchOffset,
  }));
  const { partitionBytes, answerBytes } = alone === undefined ? TOGETHER : ALONE;
  const { responses }: FetchAnswer = await broker.fetch({
    maxWaitTime: alone !== undefined || isAnyLeftOut ? SHORT_POLL_MS : LONG_POLL_MS,
    minBytes: 1,
    maxBytes: answerBytes,
    topics: asked.map(({ buffer: { clusterTopic, partition }, offset }) => ({
      topic: clusterTopic,
      partitions: [{ partition, fetchOffset: String(offset), maxBytes: partitionBytes }],
    })),
  });
  for (const { buffer, offset } of asked) {
    const answer = responses
      .find(({ topicName, partitions }) => topicName === buffer.clusterTopic && partitions.some(isOf(buffer)))
      ?.partitions.find(isOf(buffer));
    // After a seek meanwhile, other records are wanted.
    if (answer !== undefined && buffer.fetchOffset === offset) await deliver(buffer, answer, catalog);
  }
}

function isOf(buffer: PartitionBuffer): (answer: { partition: number }) => boolean {
  return ({ partition }) => partition === buffer.partition;
}

/**
 * An answer without records although there are some below the last stable offset: others had taken the room, or
 * compaction has left batches without a record, which kafkajs does not show. Asked for alone, with room for more than
 * any batch, only the second can be; then everything below that offset was passed.
 */
async function deliver(
  buffer: PartitionBuffer,
  answer: PartitionAnswer,
  catalog: Pick<KafkaCatalog, 'limits'>,
): Promise<void> {
  const offset = buffer.fetchOffset;
  const chunk = chunkOf(answer, offset);
  const stableEnd = Number(answer.lastStableOffset);
  if (chunk !== undefined) {
    buffer.put(chunk);
  } else if (stableEnd <= offset) {
    buffer.isAskedAlone = false;
  } else if (!buffer.isAskedAlone) {
    buffer.isAskedAlone = true;
  } else if (!(await catalog.limits(buffer.topic)).isCompacted) {
    // So that the others have their turn before it is tried again.
    buffer.isAskedAlone = false;
    throw new Error(`no records come of ${buffer.topic}/${buffer.partition} from ${offset} to ${stableEnd}`);
  } else if (buffer.fetchOffset === offset) {
    buffer.put({ records: [], sizes: [], nextOffset: stableEnd });
  }
}
