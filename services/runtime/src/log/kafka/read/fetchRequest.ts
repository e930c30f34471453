/** One Fetch of one broker for several partitions, and its answer put into their buffers. */
import type { Broker } from 'kafkajs';
import { nextTurn } from '../../../process/waiting.ts';
import type { TopicLimits } from '../append/batchBytes.ts';
import { exchange, protocolError } from '../client/exchange.ts';
import { type Diverging, fetchRequest, type PartitionAnswer } from './fetchProtocol.ts';
import type { PartitionBuffer } from './partitionBuffer.ts';
import { BatchRefused, type Chunk, decodeBatches } from './recordBatches.ts';

/** The broker may wait so long for records, and so may a partition that wants some meanwhile. */
const LONG_POLL_MS = 250;
/** While a partition is left out whose buffer is full: it may want records at any moment. */
const SHORT_POLL_MS = 25;
const PARTITION_BYTES = 1024 * 1024;
const ANSWER_BYTES = 4 * 1024 * 1024;

/** A batch may inflate to so much, or to what its topic takes at once, if that is more. */
const MAX_INFLATED_BYTES = 64 * 1024 * 1024;
/** What goes beyond it is left, and fetched again: of one partition, and of an answer. */
const MAX_PARTITION_BYTES = 8 * 1024 * 1024;
const MAX_ANSWER_BYTES = 32 * 1024 * 1024;
/** The event loop has its turn behind so many bytes. */
const TURN_BYTES = 1024 * 1024;

export type ReadLimits = Pick<TopicLimits, 'maxBatchBytes' | 'isCompacted'>;

/** The log of a partition does not hold what was read of it. */
export class Diverged extends Error {
  readonly at: Diverging;

  constructor(at: Diverging) {
    super(`leader epoch ${at.epoch} ends at ${at.endOffset}`);
    this.at = at;
  }
}

export interface PartitionFailure {
  readonly buffer: PartitionBuffer;
  /** Diverged; BatchRefused; an error of the protocol. */
  readonly error: Error;
}

export interface Asked {
  readonly buffer: PartitionBuffer;
  readonly limits: ReadLimits;
}

/**
 * The first partition that has records gets at least one batch, however large: who is asked for last gets what room is
 * left (KIP-74).
 * @returns what fails of one partition alone; the others have what came.
 * @throws what fails of the broker or the connection to it.
 */
export async function fetchFrom(
  broker: Broker,
  wanted: readonly Asked[],
  { isAnyLeftOut }: { isAnyLeftOut: boolean },
): Promise<PartitionFailure[]> {
  const asked = wanted.map(({ buffer, limits }) => {
    const { clusterTopic, partition, fetchOffset: offset, lastFetchedEpoch } = buffer;
    return { buffer, limits, clusterTopic, partition, offset, lastFetchedEpoch };
  });
  const answer = await exchange(
    broker,
    fetchRequest({
      maxWaitMs: isAnyLeftOut ? SHORT_POLL_MS : LONG_POLL_MS,
      maxBytes: ANSWER_BYTES,
      partitionMaxBytes: PARTITION_BYTES,
      partitions: asked,
    }),
  );
  if (answer.errorCode !== 0) throw protocolError(answer.errorCode);
  const answers = new Map(answer.partitions.map((one) => [nameOf(one), one]));
  const failures: PartitionFailure[] = [];
  let room = MAX_ANSWER_BYTES;
  let sinceTurn = 0;
  let isFirst = true;
  for (const { buffer, limits, offset, lastFetchedEpoch } of asked) {
    const own = answers.get(nameOf(buffer));
    // After a seek meanwhile, other records are wanted.
    const isStale = buffer.fetchOffset !== offset || buffer.lastFetchedEpoch !== lastFetchedEpoch;
    if (own === undefined || isStale || room <= 0) continue;
    try {
      const chunk = chunkOf(own, { buffer, limits }, isFirst);
      if (own.batches.length > 0) isFirst = false;
      if (chunk === undefined) continue;
      room -= chunk.bytes;
      sinceTurn += chunk.bytes;
      buffer.put(chunk);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      failures.push({ buffer, error });
    }
    if (sinceTurn < TURN_BYTES) continue;
    sinceTurn = 0;
    await nextTurn();
  }
  return failures;
}

function nameOf({ clusterTopic, partition }: { clusterTopic: string; partition: number }): string {
  return `${clusterTopic}/${partition}`;
}

/** @throws Error of the partition alone. */
function chunkOf(answer: PartitionAnswer, { buffer, limits }: Asked, isFirst: boolean): Chunk | undefined {
  if (answer.errorCode !== 0) throw protocolError(answer.errorCode);
  if (answer.diverging !== undefined) throw new Diverged(answer.diverging);
  if (answer.batches.length === 0) return undefined;
  const chunk = decodeBatches(answer.batches, {
    position: buffer.fetchOffset,
    batchesFrom: buffer.batchesFrom,
    leaderEpoch: buffer.leaderEpoch,
    isCompacted: limits.isCompacted,
    aborted: answer.aborted,
    maxInflatedBytes: Math.max(MAX_INFLATED_BYTES, limits.maxBatchBytes),
    maxBytes: MAX_PARTITION_BYTES,
  });
  if (chunk !== undefined && chunk.nextOffset > buffer.fetchOffset) return chunk;
  if (isFirst) throw new BatchRefused('no whole batch comes');
  return undefined;
}
