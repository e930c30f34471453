/**
 * What every producer asks a broker: who it is, by kafkajs's own request, and to take a batch, by a Produce of version 7,
 * the first that takes zstd (KIP-110, Kafka 2.1).
 */
import { allocateBytes } from '@questlog/schemas/buffers';
import type { Broker } from 'kafkajs';
import { protocolError, type Request, sendRequest, type Throttled } from '../client/sendRequest.ts';
import { encodeBatch, type NewBatch, type ProducerIdentity } from './recordBatch.ts';

interface TopicPartition {
  /** The topic's name on the cluster. */
  readonly topic: string;
  readonly partition: number;
}

export interface ProduceOptions extends TopicPartition {
  readonly batch: NewBatch;
  /** Of a producer of transactions. */
  readonly transactionalId: string | null;
  /** The broker waits no longer for the other replicas. */
  readonly waitMs: number;
}

/** Of each partition, as they were asked. */
export interface ProduceResponse extends Throttled {
  readonly responses: readonly PartitionResponse[];
}

interface PartitionResponse {
  /** 0: the batch is in the log of all replicas that are in sync. */
  readonly errorCode: number;
  /** Of the first record. */
  readonly baseOffset: number;
}

const ACKS_ALL = -1;

/**
 * @returns the offset of the first record.
 * @throws the error that the broker answers.
 */
export async function sendProduceRequest(broker: Broker, request: PartitionRequest): Promise<number> {
  const [response] = (await sendRequest(broker, request)).responses;
  // It has one of each that was asked.
  const { errorCode, baseOffset } = response as PartitionResponse;
  if (errorCode !== 0) throw protocolError(errorCode);
  return baseOffset;
}

/** @param requested of a producer of transactions: it fences those that had the id before. */
export async function initProducerId(
  broker: Broker,
  requested: { readonly transactionalId?: string; readonly transactionTimeout: number },
): Promise<ProducerIdentity> {
  const { producerId, producerEpoch } = await (broker as BrokerInternals).initProducerId(requested);
  return { producerId: BigInt(producerId), epoch: producerEpoch };
}

/** It begins anew behind the largest number of 31 bits. */
export function nextSequence(sequence: number, records: number): number {
  return (sequence + records) % 2 ** 31;
}

/** It is missing in kafkajs's types. */
interface BrokerInternals extends Broker {
  initProducerId(requested: {
    readonly transactionalId?: string;
    readonly transactionTimeout: number;
  }): Promise<{ readonly producerId: string; readonly producerEpoch: number }>;
}

/** A Produce of one partition. */
export interface PartitionRequest extends TopicPartition, Request<ProduceResponse> {
  /** Within the body. */
  readonly batch: Buffer;
}

/** Sent again as it is, it is appended no more than once. */
export async function produceRequest(produce: ProduceOptions): Promise<PartitionRequest> {
  const { topic, partition, batch, transactionalId, waitMs } = produce;
  const idBytes = transactionalId === null ? 0 : Buffer.byteLength(transactionalId);
  const headerBytes = FIXED_BYTES + idBytes + Buffer.byteLength(topic);
  const body = await encodeBatch(batch, headerBytes);
  let at = writeText(body, 0, transactionalId);
  at = body.writeInt16BE(ACKS_ALL, at);
  at = body.writeInt32BE(waitMs, at);
  at = body.writeInt32BE(1, at);
  at = writeText(body, at, topic);
  at = body.writeInt32BE(1, at);
  at = body.writeInt32BE(partition, at);
  body.writeInt32BE(body.length - headerBytes, at);
  return {
    ...{ topic, partition, batch: body.subarray(headerBytes) },
    ...PRODUCE,
    body,
    decode: (bytes) => decodeResponse(bytes, [produce]),
  };
}

const PRODUCE = { apiKey: 0, apiVersion: 7, apiName: 'Produce', since: '2.1' };

/** Of several partitions, of each once. It is answered when the last of them has its replicas, or `waitMs` are over. */
export function sharedRequest(
  requests: readonly PartitionRequest[],
  waitMs: number,
): Request<ProduceResponse> {
  const topics = Map.groupBy(requests, ({ topic }) => topic);
  const topicBytes = [...topics.keys()].reduce((sum, topic) => sum + 2 + Buffer.byteLength(topic) + 4, 0);
  const batches = requests.reduce((sum, { batch }) => sum + 4 + 4 + batch.length, 0);
  const body = allocateBytes(2 + 2 + 4 + 4 + topicBytes + batches);
  let at = writeText(body, 0, null);
  at = body.writeInt16BE(ACKS_ALL, at);
  at = body.writeInt32BE(waitMs, at);
  at = body.writeInt32BE(topics.size, at);
  for (const [topic, topicRequests] of topics) {
    at = writeText(body, at, topic);
    at = body.writeInt32BE(topicRequests.length, at);
    for (const { partition, batch } of topicRequests) {
      at = body.writeInt32BE(partition, at);
      at = body.writeInt32BE(batch.length, at);
      at += batch.copy(body, at);
    }
  }
  return { ...PRODUCE, body, decode: (bytes) => decodeResponse(bytes, requests) };
}

/** Two lengths of texts, acks, time, two counts, the partition and the batch's length. */
const FIXED_BYTES = 2 * 2 + 2 + 5 * 4;

function writeText(bytes: Buffer, at: number, text: string | null): number {
  if (text === null) return bytes.writeInt16BE(-1, at);
  const start = bytes.writeInt16BE(Buffer.byteLength(text), at);
  return start + bytes.write(text, start);
}

/** @throws Error for one that is not of these partitions, of each once: some clients take such for an acknowledgement. */
function decodeResponse(bytes: Buffer, requested: readonly TopicPartition[]): ProduceResponse {
  const { partitions, clientSideThrottleTime } = readResponse(bytes);
  const responses = requested.map(({ topic, partition }) => {
    const partitionName = `${topic}/${partition}`;
    const response = partitions.get(partitionName);
    if (response === undefined || partitions.size !== requested.length) {
      throw new Error(`the answer is not of ${partitionName}: ${bytes.toString('hex', 0, MAX_SHOWN_BYTES)}`);
    }
    const { errorCode, baseOffset } = response;
    if (errorCode === 0 && baseOffset < 0) throw new Error(`the answer of ${partitionName} has no offset`);
    return response;
  });
  return { responses, clientSideThrottleTime };
}

interface DecodedResponse extends Throttled {
  /** By `topic/partition`. */
  readonly partitions: ReadonlyMap<string, PartitionResponse>;
}

function readResponse(bytes: Buffer): DecodedResponse {
  const partitions = new Map<string, PartitionResponse>();
  let at = 4;
  try {
    for (let topics = bytes.readInt32BE(0); topics > 0; topics -= 1) {
      const nameEnd = at + 2 + bytes.readInt16BE(at);
      const topic = bytes.toString('utf8', at + 2, nameEnd);
      at = nameEnd + 4;
      for (let count = bytes.readInt32BE(nameEnd); count > 0; count -= 1) {
        const partitionName = `${topic}/${bytes.readInt32BE(at)}`;
        const baseOffset = bytes.readInt32BE(at + 6) * 2 ** 32 + bytes.readUInt32BE(at + 10);
        partitions.set(partitionName, { errorCode: bytes.readInt16BE(at + 4), baseOffset });
        at += PARTITION_RESPONSE_BYTES;
      }
    }
    return { partitions, clientSideThrottleTime: bytes.readInt32BE(at) };
  } catch {
    throw new Error(`the answer is cut short: ${bytes.toString('hex', 0, MAX_SHOWN_BYTES)}`);
  }
}

/** Its number, its error, and three numbers of 8 bytes. */
const PARTITION_RESPONSE_BYTES = 4 + 2 + 3 * 8;
const MAX_SHOWN_BYTES = 100;
