/** A kafkajs broker without a network. Decodes each Fetch request and encodes the response that the test specifies. */
import type { Broker } from 'kafkajs';
import { yieldToEventLoop } from '../../../process/waiting.ts';
import type { Diverging } from './fetchProtocol.ts';
import type { AbortedTransaction } from './recordBatches.ts';

export interface AskedPartition {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly leaderEpoch: number;
}

export interface AnsweredPartition {
  readonly errorCode?: number;
  readonly aborted?: readonly AbortedTransaction[];
  readonly batches?: Buffer;
  readonly diverging?: Diverging;
}

/** @param answer a function that returns the response for a partition. Undefined omits the partition from the response. */
export function aBroker(
  answer: (
    requested: AskedPartition,
  ) => AnsweredPartition | undefined | Promise<AnsweredPartition | undefined>,
  { maxVersion = 17, errorCode = 0 } = {},
): { broker: Broker; requested: AskedPartition[][] } {
  const requested: AskedPartition[][] = [];
  const send = async ({ request, response }: Exchange) => {
    const partitions = askedIn((await request.encode()).buffer);
    // Waiting one turn of the event loop simulates the latency of a network.
    await yieldToEventLoop();
    requested.push(partitions);
    const answered = await Promise.all(partitions.map(async (one) => ({ one, answer: await answer(one) })));
    const topics = answered.flatMap(({ one, answer: own }) =>
      own === undefined ? [] : [topicBytes(one, own)],
    );
    const head = [Buffer.of(0), int32(0), int16(errorCode), int32(0)];
    return response.decode(Buffer.concat([...head, count(topics.length), ...topics, Buffer.of(0)]));
  };
  const inside = {
    brokerAddress: 'b:9092',
    versions: { 1: { minVersion: 4, maxVersion } },
    connectionPool: { send },
  };
  return { broker: inside as unknown as Broker, requested };
}

interface Exchange {
  readonly request: { encode(): Promise<{ readonly buffer: Buffer }> };
  readonly response: { decode(bytes: Buffer): Promise<unknown> };
}

/** Decodes a request according to the protocol's description of Fetch 12. */
function askedIn(bytes: Buffer): AskedPartition[] {
  let at = 1 + 4 + 4 + 4 + 4 + 1 + 4 + 4;
  const next = (length: number) => {
    at += length;
    return at - length;
  };
  const length = () => bytes.readUInt8(next(1)) - 1;
  return Array.from({ length: length() }, () => {
    const name = length();
    const start = next(name);
    const topic = bytes.toString('utf8', start, at);
    if (length() !== 1) throw new Error(`${topic}: more than one partition`);
    const partition = bytes.readInt32BE(next(4));
    next(4);
    const offset = Number(bytes.readBigInt64BE(next(8)));
    const leaderEpoch = bytes.readInt32BE(next(4));
    next(8 + 4 + 1 + 1);
    return { topic, partition, offset, leaderEpoch };
  });
}

function topicBytes({ topic, partition }: AskedPartition, answer: AnsweredPartition): Buffer {
  const { errorCode = 0, aborted = [], batches = Buffer.alloc(0), diverging } = answer;
  const tag =
    diverging === undefined
      ? [Buffer.of(0)]
      : [Buffer.of(1, 0, 13), int32(diverging.epoch), int64(diverging.endOffset), Buffer.of(0)];
  return Buffer.concat([
    ...[count(topic.length), Buffer.from(topic), count(1), int32(partition), int16(errorCode)],
    ...[int64(0), int64(0), int64(0), count(aborted.length)],
    ...aborted.flatMap(({ producerId, firstOffset }) => [
      ...[int64(Number(producerId)), int64(firstOffset), Buffer.of(0)],
    ]),
    ...[int32(-1), count(batches.length), batches, ...tag, Buffer.of(0)],
  ]);
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeInt16BE(value);
  return bytes;
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function int64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(BigInt(value));
  return bytes;
}

/** Encodes the length of a compact array or string. */
function count(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value + 1;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) + 0x80);
  return Buffer.of(...bytes, rest);
}
