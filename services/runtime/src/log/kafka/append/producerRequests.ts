/**
 * What every producer asks a broker: who it is, by kafkajs's own request, and to take a batch, by a Produce of version 7,
 * the first that takes zstd (KIP-110, Kafka 2.1).
 */
import type { Broker } from 'kafkajs';
import { exchange, protocolError, type Request, type Throttled } from '../client/exchange.ts';
import { encodeBatch, type NewBatch, type ProducerIdentity } from './recordBatch.ts';

export interface Produce {
  /** The topic's name on the cluster. */
  readonly topic: string;
  readonly partition: number;
  readonly batch: NewBatch;
  /** Of a producer of transactions. */
  readonly transactionalId: string | null;
  /** The broker waits no longer for the other replicas. */
  readonly waitMs: number;
}

export interface ProduceAnswer extends Throttled {
  /** 0: the batch is in the log of all replicas that are in sync. */
  readonly errorCode: number;
  /** Of the first record. */
  readonly baseOffset: number;
}

const ALL_IN_SYNC = -1;

/**
 * @returns the offset of the first record.
 * @throws the error that the broker answers.
 */
export async function produced(broker: Broker, request: Request<ProduceAnswer>): Promise<number> {
  const { errorCode, baseOffset } = await exchange(broker, request);
  if (errorCode !== 0) throw protocolError(errorCode);
  return baseOffset;
}

/** @param asked of a producer of transactions: it fences those that had the id before. */
export async function newIdentity(
  broker: Broker,
  asked: { readonly transactionalId?: string; readonly transactionTimeout: number },
): Promise<ProducerIdentity> {
  const { producerId, producerEpoch } = await (broker as IdentifyingBroker).initProducerId(asked);
  return { producerId: BigInt(producerId), epoch: producerEpoch };
}

/** It begins anew behind the largest number of 31 bits. */
export function sequenceAfter(sequence: number, records: number): number {
  return (sequence + records) % 2 ** 31;
}

/** It is missing in kafkajs's types. */
interface IdentifyingBroker extends Broker {
  initProducerId(asked: {
    readonly transactionalId?: string;
    readonly transactionTimeout: number;
  }): Promise<{ readonly producerId: string; readonly producerEpoch: number }>;
}

/** Sent again as it is, it is appended no more than once. */
export async function produceRequest(produce: Produce): Promise<Request<ProduceAnswer>> {
  const { topic, partition, batch, transactionalId, waitMs } = produce;
  const idBytes = transactionalId === null ? 0 : Buffer.byteLength(transactionalId);
  const room = FIXED_BYTES + idBytes + Buffer.byteLength(topic);
  const body = await encodeBatch(batch, room);
  let at = writeText(body, 0, transactionalId);
  at = body.writeInt16BE(ALL_IN_SYNC, at);
  at = body.writeInt32BE(waitMs, at);
  at = body.writeInt32BE(1, at);
  at = writeText(body, at, topic);
  at = body.writeInt32BE(1, at);
  at = body.writeInt32BE(partition, at);
  body.writeInt32BE(body.length - room, at);
  return {
    ...{ apiKey: 0, apiVersion: 7, apiName: 'Produce', since: '2.1' },
    body,
    decode: (bytes) => decodeAnswer(bytes, produce),
  };
}

/** Two lengths of texts, acks, time, two counts, the partition and the batch's length. */
const FIXED_BYTES = 2 * 2 + 2 + 5 * 4;

function writeText(bytes: Buffer, at: number, text: string | null): number {
  if (text === null) return bytes.writeInt16BE(-1, at);
  const start = bytes.writeInt16BE(Buffer.byteLength(text), at);
  return start + bytes.write(text, start);
}

/** @throws Error for one that is not of this partition alone: some clients take such for an acknowledgement. */
function decodeAnswer(bytes: Buffer, { topic, partition }: Produce): ProduceAnswer {
  const name = Buffer.from(topic);
  const isWhole = bytes.length >= FIXED_ANSWER_BYTES + name.length;
  // One topic of that name, with one partition of that number.
  const place = Buffer.alloc(4 + 2 + name.length + 4 + 4);
  let at = place.writeInt16BE(name.length, place.writeInt32BE(1));
  at += name.copy(place, at);
  at = place.writeInt32BE(partition, place.writeInt32BE(1, at));
  if (!isWhole || !bytes.subarray(0, at).equals(place)) {
    throw new Error(
      `the answer is not of ${topic}/${partition}: ${bytes.toString('hex', 0, MAX_SHOWN_BYTES)}`,
    );
  }
  const errorCode = bytes.readInt16BE(at);
  const baseOffset = bytes.readInt32BE(at + 2) * 2 ** 32 + bytes.readUInt32BE(at + 6);
  if (errorCode === 0 && baseOffset < 0) throw new Error(`the answer of ${topic}/${partition} has no offset`);
  return { errorCode, baseOffset, clientSideThrottleTime: bytes.readInt32BE(bytes.length - 4) };
}

/** Two counts, the name's length, partition, error, three numbers of 8 bytes, and the pause that the broker wants. */
const FIXED_ANSWER_BYTES = 4 + 2 + 4 + 4 + 2 + 3 * 8 + 4;
const MAX_SHOWN_BYTES = 100;
