/**
 * Encodes Produce requests of version 7, which is the first version that supports zstd (KIP-110, Kafka 2.1). InitProducerId
 * requests are encoded by kafkajs.
 */
import { allocateBytes } from '@questlog/schemas/buffers';
import type { Broker } from 'kafkajs';
import { protocolError, type Request, sendRequest, type Throttled } from '../client/sendRequest.ts';
import { encodeBatch, type NewBatch, type ProducerIdentity } from './recordBatch.ts';

interface TopicPartition {
  readonly topic: string;
  readonly partition: number;
}

export interface ProduceOptions extends TopicPartition {
  readonly batch: NewBatch;
  readonly transactionalId: string | null;
  /** Maximum time that the leader waits for the replicas of the partition. */
  readonly waitMs: number;
}

export interface ProduceResponse extends Throttled {
  readonly responses: readonly PartitionResponse[];
}

interface PartitionResponse {
  /** Error code of the partition. The code is 0 if all in-sync replicas have the batch. */
  readonly errorCode: number;
  readonly baseOffset: number;
}

const ACKS_ALL = -1;

/** Returns the offset of the first record. @throws the error in the broker's response. */
export async function sendProduceRequest(broker: Broker, request: PartitionRequest): Promise<number> {
  const [response] = (await sendRequest(broker, request)).responses;
  // The response contains the requested partition, because `decodeResponse` rejects all other responses.
  const { errorCode, baseOffset } = response as PartitionResponse;
  if (errorCode !== 0) throw protocolError(errorCode);
  return baseOffset;
}

/** Requests a producer id. If `requested` contains a transactional id, the brokers fence older producers of this id. */
export async function initProducerId(
  broker: Broker,
  requested: { readonly transactionalId?: string; readonly transactionTimeout: number },
): Promise<ProducerIdentity> {
  const { producerId, producerEpoch } = await (broker as BrokerInternals).initProducerId(requested);
  return { producerId: BigInt(producerId), epoch: producerEpoch };
}

/** Returns the sequence number that follows the records. After 2^31 - 1, sequence numbers restart at 0. */
export function nextSequence(sequence: number, records: number): number {
  return (sequence + records) % 2 ** 31;
}

interface BrokerInternals extends Broker {
  initProducerId(requested: {
    readonly transactionalId?: string;
    readonly transactionTimeout: number;
  }): Promise<{ readonly producerId: string; readonly producerEpoch: number }>;
}

export interface PartitionRequest extends TopicPartition, Request<ProduceResponse> {
  readonly batch: Buffer;
}

/** Encodes a Produce request. The brokers append the batch at most one time, even if the request is sent several times. */
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

/** Combines the Produce requests of several partitions. The broker responds after `waitMs` at the latest. */
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

const FIXED_BYTES = 2 * 2 + 2 + 5 * 4;

function writeText(bytes: Buffer, at: number, text: string | null): number {
  if (text === null) return bytes.writeInt16BE(-1, at);
  const start = bytes.writeInt16BE(Buffer.byteLength(text), at);
  return start + bytes.write(text, start);
}

/** Decodes a Produce response. @throws Error if the response does not contain every requested partition. */
function decodeResponse(bytes: Buffer, requested: readonly TopicPartition[]): ProduceResponse {
  const { partitions, clientSideThrottleTime } = readResponse(bytes);
  const responses = requested.map(({ topic, partition }) => {
    const partitionName = `${topic}/${partition}`;
    const response = partitions.get(partitionName);
    if (response === undefined || partitions.size !== requested.length) {
      throw new Error(
        `the response does not match ${partitionName}: ${bytes.toString('hex', 0, MAX_SHOWN_BYTES)}`,
      );
    }
    const { errorCode, baseOffset } = response;
    if (errorCode === 0 && baseOffset < 0) throw new Error(`the response for ${partitionName} has no offset`);
    return response;
  });
  return { responses, clientSideThrottleTime };
}

interface DecodedResponse extends Throttled {
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
    throw new Error(`the response is truncated: ${bytes.toString('hex', 0, MAX_SHOWN_BYTES)}`);
  }
}

const PARTITION_RESPONSE_BYTES = 4 + 2 + 3 * 8;
const MAX_SHOWN_BYTES = 100;
