/** Fetches several partitions from one Kafka broker and puts the records into the buffers of the partitions. */
import type { Broker } from 'kafkajs';
import { yieldToEventLoop } from '../../../process/waiting.ts';
import type { TopicLimits } from '../append/batchSize.ts';
import { protocolError, sendRequest } from '../client/sendRequest.ts';
import { type Diverging, fetchRequest, type PartitionResponse } from './fetchProtocol.ts';
import type { PartitionBuffer } from './partitionBuffer.ts';
import { type Chunk, decodeBatches, InvalidBatch } from './recordBatches.ts';

/** Maximum wait of a fetch for new records. New records end the wait early. The value is the default of Kafka's consumers. */
const LONG_POLL_MS = 500;
/**
 * Maximum wait of a fetch that omits some partitions because their buffers are full. A short wait lets the next fetch include
 * these partitions again.
 */
const SHORT_POLL_MS = 25;
const PARTITION_BYTES = 1024 * 1024;
const RESPONSE_BYTES = 4 * 1024 * 1024;

/** Maximum size of a decompressed batch. Topics with a higher batch limit use their own limit. */
const MAX_INFLATED_BYTES = 64 * 1024 * 1024;
/** Maximum decompressed bytes of a response, per partition and in total. A later request fetches the other records. */
const MAX_PARTITION_BYTES = 8 * 1024 * 1024;
const MAX_RESPONSE_BYTES = 32 * 1024 * 1024;
/** Number of bytes to process before other tasks of the event loop can run. */
const TURN_BYTES = 1024 * 1024;

export type ReadLimits = Pick<TopicLimits, 'maxBatchBytes' | 'isCompacted'>;

/** Thrown if a partition's log differs from the records that were read earlier. */
export class Diverged extends Error {
  readonly at: Diverging;

  constructor(at: Diverging) {
    super(`leader epoch ${at.epoch} ends at ${at.endOffset}`);
    this.at = at;
  }
}

export interface PartitionFailure {
  readonly buffer: PartitionBuffer;
  readonly error: Error;
}

export interface WantedPartition {
  readonly buffer: PartitionBuffer;
  readonly limits: ReadLimits;
}

/**
 * Fetches the partitions from one broker. Returns the failures of single partitions. The first batch in a response can exceed
 * the byte limits (KIP-74).
 * @throws an error of the broker or of the connection.
 */
export async function fetchFromBroker(
  broker: Broker,
  wanted: readonly WantedPartition[],
  { isAnyExcluded }: { isAnyExcluded: boolean },
): Promise<PartitionFailure[]> {
  const requested = wanted.map(({ buffer, limits }) => {
    const { clusterTopic, partition, fetchOffset: offset, lastFetchedEpoch } = buffer;
    return { buffer, limits, clusterTopic, partition, offset, lastFetchedEpoch };
  });
  const response = await sendRequest(
    broker,
    fetchRequest({
      maxWaitMs: isAnyExcluded ? SHORT_POLL_MS : LONG_POLL_MS,
      maxBytes: RESPONSE_BYTES,
      partitionMaxBytes: PARTITION_BYTES,
      partitions: requested,
    }),
  );
  if (response.errorCode !== 0) throw protocolError(response.errorCode);
  const responses = new Map(response.partitions.map((partition) => [nameOf(partition), partition]));
  const failures: PartitionFailure[] = [];
  let remainingBytes = MAX_RESPONSE_BYTES;
  let bytesSinceTurn = 0;
  let isFirst = true;
  for (const { buffer, limits, offset, lastFetchedEpoch } of requested) {
    const partitionResponse = responses.get(nameOf(buffer));
    // A `seek` has changed the position during the request, so the response is outdated.
    const isStale = buffer.fetchOffset !== offset || buffer.lastFetchedEpoch !== lastFetchedEpoch;
    if (partitionResponse === undefined || isStale || remainingBytes <= 0) continue;
    try {
      const chunk = chunkOf(partitionResponse, { buffer, limits }, isFirst);
      if (partitionResponse.batches.length > 0) isFirst = false;
      if (chunk === undefined) continue;
      remainingBytes -= chunk.bytes;
      bytesSinceTurn += chunk.bytes;
      buffer.put(chunk);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      failures.push({ buffer, error });
    }
    if (bytesSinceTurn < TURN_BYTES) continue;
    bytesSinceTurn = 0;
    await yieldToEventLoop();
  }
  return failures;
}

function nameOf({ clusterTopic, partition }: { clusterTopic: string; partition: number }): string {
  return `${clusterTopic}/${partition}`;
}

function chunkOf(
  response: PartitionResponse,
  { buffer, limits }: WantedPartition,
  isFirst: boolean,
): Chunk | undefined {
  if (response.errorCode !== 0) throw protocolError(response.errorCode);
  if (response.diverging !== undefined) throw new Diverged(response.diverging);
  if (response.batches.length === 0) return undefined;
  const chunk = decodeBatches(response.batches, {
    position: buffer.fetchOffset,
    minBatchOffset: buffer.minBatchOffset,
    leaderEpoch: buffer.leaderEpoch,
    isCompacted: limits.isCompacted,
    aborted: response.aborted,
    maxDecompressedBytes: Math.max(MAX_INFLATED_BYTES, limits.maxBatchBytes),
    maxBytes: MAX_PARTITION_BYTES,
  });
  if (chunk !== undefined && chunk.nextOffset > buffer.fetchOffset) return chunk;
  if (isFirst) throw new InvalidBatch('the response has no complete batch');
  return undefined;
}
