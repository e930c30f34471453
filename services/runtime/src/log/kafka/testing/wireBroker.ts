/**
 * Brokers on local ports. A test specifies their responses to Produce requests. Like Kafka, they respond to the requests of a
 * connection in order and append a duplicate batch only once.
 */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { withinLimit } from '../../../process/waiting.ts';
import { BASE_SEQUENCE, PRODUCER_ID } from '../read/batchLayout.ts';
import { decodeBatches } from '../read/recordBatches.ts';

export interface WireBroker {
  /** Address of the first broker, as `host:port`. */
  readonly address: string;
  /** Returns the number of InitProducerId requests. */
  readonly producerIds: () => number;
  /** Returns the values in a partition. */
  values(partition: number): readonly string[];
  /** Partitions of each Produce request, in the order of the requests. */
  readonly requests: readonly (readonly number[])[];
  /** Steps that were requested from coordinators. */
  readonly requested: readonly CoordinatorStep[];
  close(): Promise<void>;
}

export interface WireBrokerOptions {
  readonly topic: string;
  readonly partitions: number;
  /** Number of brokers. The default is 1. The ids of the brokers start at 1. */
  readonly brokers?: number;
  /** Returns the id of the leader. The default is the first broker. */
  leader?(partition: number): number;
  /**
   * Returns the response to a batch. With `silent`, the broker appends the batch. A shared request that contains the batch then
   * gets no response.
   */
  produce(requested: Produced): Outcome | 'silent' | Promise<Outcome>;
  /** Returns the id of the coordinator. The default is the first broker. */
  coordinator?(): number;
  coordinate?(step: CoordinatorStep): Outcome | Promise<Outcome>;
}

/** Requests of a transaction. The request `find` returns the coordinator. */
export type CoordinatorStep = 'find' | 'addPartitions' | 'addOffsets' | 'commitOffsets' | 'commit' | 'abort';

export interface Produced {
  readonly partition: number;
  readonly producerId: bigint;
  readonly sequence: number;
  readonly values: readonly string[];
}

/**
 * Outcome of a batch. A number is an error code (0 for success). With `cut`, the broker appends the batch and closes the
 * connection. A buffer contains the bytes of the response to an appended batch.
 */
export type Outcome = number | 'cut' | Buffer;

const PRODUCE = 0;
const METADATA = 3;
const API_VERSIONS = 18;
const FIND_COORDINATOR = 10;
const INIT_PRODUCER_ID = 22;
const ADD_PARTITIONS = 24;
const ADD_OFFSETS = 25;
const END_TRANSACTION = 26;
const COMMIT_OFFSETS = 28;
/** Version of each request that the brokers support. */
const VERSIONS = {
  ...{ [PRODUCE]: 7, [METADATA]: 1, [FIND_COORDINATOR]: 1, [API_VERSIONS]: 0, [INIT_PRODUCER_ID]: 0 },
  ...{ [ADD_PARTITIONS]: 0, [ADD_OFFSETS]: 0, [END_TRANSACTION]: 0, [COMMIT_OFFSETS]: 0 },
};

const NOT_LEADER = 6;
const REQUEST_TIMED_OUT = 7;
const NOT_COORDINATOR = 16;
const OUT_OF_ORDER_SEQUENCE_NUMBER = 45;
/**
 * Error codes with which the leader has appended the batch: success, REQUEST_TIMED_OUT, and NOT_ENOUGH_REPLICAS_AFTER_APPEND.
 */
const APPENDED = [0, 7, 20];

export async function startWireBroker(options: WireBrokerOptions): Promise<WireBroker> {
  const sockets = new Set<Socket>();
  const logs = Array.from({ length: options.partitions }, () => new WireLog());
  const requested: CoordinatorStep[] = [];
  const requests: number[][] = [];
  let producerIds = 0;
  const ports: number[] = [];
  const answers: Answers = {
    ...coordinatorAnswers(options, ports, requested),
    [API_VERSIONS]: (_, { version }) => apiVersions(version),
    [METADATA]: () => metadata(options, ports),
    [INIT_PRODUCER_ID]: () => {
      producerIds += 1;
      return Buffer.concat([int32(0), int16(0), int64(producerIds), int16(0)]);
    },
    [PRODUCE]: async (node, { body }) => {
      const { waitMs, batches } = produced(body);
      requests.push(batches.map(({ partition }) => partition));
      return await taken(options, logs, node, batches, waitMs);
    },
  };
  const servers = Array.from({ length: options.brokers ?? 1 }, (_, index) =>
    createServer((socket) => {
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket)).on('error', () => undefined);
      serve(socket, (request) => answers[request.apiKey]?.(index + 1, request));
    }),
  );
  for (const server of servers) {
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const listening = server.address();
    if (typeof listening === 'object' && listening !== null) ports.push(listening.port);
  }
  return {
    address: `127.0.0.1:${ports[0]}`,
    requested,
    requests,
    producerIds: () => producerIds,
    values: (partition) => logs[partition]?.values ?? [],
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
    },
  };
}

/** Functions that return the response, by API key. If a function returns undefined, the broker closes the connection. */
type Answers = Readonly<
  Record<number, (node: number, request: WireRequest) => Buffer | undefined | Promise<Buffer | undefined>>
>;

/** Handles the requests of a connection in order. */
function serve(
  socket: Socket,
  answering: (request: WireRequest) => Buffer | undefined | Promise<Buffer | undefined>,
): void {
  let last: Promise<unknown> = Promise.resolve();
  eachRequest(socket, (request) => {
    last = last.then(async () => {
      const answer = await answering(request);
      if (answer === undefined) socket.destroy();
      else if (socket.writable)
        socket.write(Buffer.concat([int32(4 + answer.length), request.correlationId, answer]));
    });
  });
}

/** Responds to the partitions of a request in reverse order, because the protocol guarantees no order. */
async function taken(
  { topic, leader = () => 1, produce }: WireBrokerOptions,
  logs: readonly WireLog[],
  node: number,
  batches: readonly Produced[],
  waitMs: number,
): Promise<Buffer | undefined> {
  const outcomes = await Promise.all(
    batches.map(async (given) => {
      if (node !== leader(given.partition)) return NOT_LEADER;
      const outcome = Promise.resolve(produce(given));
      // A request with one batch may stay without a response.
      return batches.length === 1 ? outcome : await withinLimit(outcome, waitMs, () => REQUEST_TIMED_OUT);
    }),
  );
  const answers = outcomes.map((outcome, index) => {
    const { partition } = batches[index] as Produced;
    const isTaken = typeof outcome !== 'number' || APPENDED.includes(outcome);
    const baseOffset = isTaken ? logs[partition]?.append(batches[index] as Produced) : -1;
    const errorCode = baseOffset === undefined ? OUT_OF_ORDER_SEQUENCE_NUMBER : outcome;
    return ofBatch(partition, typeof errorCode === 'number' ? errorCode : 0, baseOffset);
  });
  const other = outcomes.find((outcome) => typeof outcome !== 'number');
  if (other === 'silent' && batches.length > 1) return await new Promise(() => undefined);
  if (other instanceof Buffer) return other;
  if (other === 'cut') return undefined;
  return wholeAnswer(topic, answers.toReversed());
}

function coordinatorAnswers(
  { coordinator = () => 1, coordinate = () => 0 }: WireBrokerOptions,
  ports: readonly number[],
  requested: CoordinatorStep[],
): Answers {
  const answered = async (node: number, step: CoordinatorStep, answer: (errorCode: number) => Buffer) => {
    requested.push(step);
    const outcome = node === coordinator() ? await coordinate(step) : NOT_COORDINATOR;
    if (outcome === 'cut') return undefined;
    return typeof outcome === 'number' ? answer(outcome) : outcome;
  };
  return {
    [FIND_COORDINATOR]: () => {
      requested.push('find');
      const at = [int32(coordinator()), text('127.0.0.1'), int32(ports[coordinator() - 1] ?? 0)];
      return Buffer.concat([int32(0), int16(0), int16(-1), ...at]);
    },
    [ADD_PARTITIONS]: (node) => answered(node, 'addPartitions', ofPartition),
    [ADD_OFFSETS]: (node) => answered(node, 'addOffsets', ofAll),
    [COMMIT_OFFSETS]: (node) => answered(node, 'commitOffsets', ofPartition),
    [END_TRANSACTION]: (node, { body }) => answered(node, body.at(-1) === 1 ? 'commit' : 'abort', ofAll),
  };
}

function ofAll(errorCode: number): Buffer {
  return Buffer.concat([int32(0), int16(errorCode)]);
}

function ofPartition(errorCode: number): Buffer {
  return Buffer.concat([int32(0), int32(1), text('topic'), int32(1), int32(0), int16(errorCode)]);
}

/** Log of a partition: its records, and the last batch of each producer. */
class WireLog {
  readonly values: string[] = [];
  readonly #last = new Map<bigint, { sequence: number; next: number; baseOffset: number }>();

  /** Appends a batch. Returns undefined if the batch does not follow the producer's last batch. */
  append({ producerId, sequence, values }: Produced): number | undefined {
    const last = this.#last.get(producerId);
    const next = sequence + values.length;
    if (last?.sequence === sequence && last.next === next) return last.baseOffset;
    if (sequence !== (last?.next ?? 0)) return undefined;
    const baseOffset = this.values.length;
    this.values.push(...values);
    this.#last.set(producerId, { sequence, next, baseOffset });
    return baseOffset;
  }
}

interface WireRequest {
  readonly apiKey: number;
  readonly version: number;
  readonly correlationId: Buffer;
  /** Bytes of the request after the client id. */
  readonly body: Buffer;
}

function eachRequest(socket: Socket, take: (request: WireRequest) => void): void {
  let bytes: Buffer = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk]);
    while (bytes.length >= 4 && bytes.length >= 4 + bytes.readInt32BE(0)) {
      const request = bytes.subarray(4, 4 + bytes.readInt32BE(0));
      bytes = bytes.subarray(4 + request.length);
      take({
        apiKey: request.readInt16BE(0),
        version: request.readInt16BE(2),
        correlationId: request.subarray(4, 8),
        body: request.subarray(10 + Math.max(request.readInt16BE(8), 0)),
      });
    }
  });
}

function apiVersions(version: number): Buffer {
  // The broker returns this error for an unsupported version of ApiVersions. Like Kafka, it uses the oldest response format.
  const UNSUPPORTED_VERSION = 35;
  const spoken = Object.entries(VERSIONS).map(([key, only]) =>
    Buffer.concat([int16(Number(key)), int16(only), int16(only)]),
  );
  return Buffer.concat([int16(version === 0 ? 0 : UNSUPPORTED_VERSION), int32(spoken.length), ...spoken]);
}

function metadata(
  { topic, partitions, leader = () => 1 }: WireBrokerOptions,
  ports: readonly number[],
): Buffer {
  const own = Array.from({ length: partitions }, (_, partition) =>
    Buffer.concat([
      int16(0),
      int32(partition),
      int32(leader(partition)),
      int32(1),
      int32(1),
      int32(1),
      int32(1),
    ]),
  );
  const brokers = ports.map((port, index) =>
    Buffer.concat([int32(index + 1), text('127.0.0.1'), int32(port), int16(-1)]),
  );
  const topics = [int32(1), int16(0), text(topic), Buffer.of(0), int32(partitions), ...own];
  return Buffer.concat([int32(ports.length), ...brokers, int32(1), ...topics]);
}

/** Decodes the batches of a request for one topic. */
function produced(body: Buffer): { readonly waitMs: number; readonly batches: readonly Produced[] } {
  // Skips the transactional id and the acks.
  let at = 2 + Math.max(body.readInt16BE(0), 0) + 2;
  const waitMs = body.readInt32BE(at);
  at += 4 + 4;
  at += 2 + body.readInt16BE(at) + 4;
  const all = { position: 0, minBatchOffset: 0, leaderEpoch: -1, isCompacted: false, aborted: [] };
  const bounds = { maxDecompressedBytes: 2 ** 26, maxBytes: 2 ** 26 };
  const batches: Produced[] = [];
  while (at < body.length) {
    const batch = body.subarray(at + 8, at + 8 + body.readInt32BE(at + 4));
    const records = decodeBatches(batch, { ...all, ...bounds })?.records ?? [];
    batches.push({
      partition: body.readInt32BE(at),
      producerId: batch.readBigInt64BE(PRODUCER_ID),
      sequence: batch.readInt32BE(BASE_SEQUENCE),
      values: records.map(({ value }) => String(value)),
    });
    at += 8 + batch.length;
  }
  return { waitMs, batches };
}

/** Encodes a Produce response of version 7 for one partition. */
export function produceAnswer(topic: string, partition: number, errorCode: number, baseOffset = -1): Buffer {
  return wholeAnswer(topic, [ofBatch(partition, errorCode, baseOffset)]);
}

/** Encodes a Produce response that reports success at offset 77,777 for each partition. */
export function sharedAnswer(topic: string, partitions: readonly number[]): Buffer {
  return wholeAnswer(
    topic,
    partitions.map((partition) => ofBatch(partition, 0, 77_777)),
  );
}

function wholeAnswer(topic: string, partitions: readonly Buffer[]): Buffer {
  return Buffer.concat([int32(1), text(topic), int32(partitions.length), ...partitions, int32(0)]);
}

function ofBatch(partition: number, errorCode: number, baseOffset = -1): Buffer {
  return Buffer.concat([int32(partition), int16(errorCode), int64(baseOffset), int64(-1), int64(0)]);
}

function text(value: string): Buffer {
  return Buffer.concat([int16(Buffer.byteLength(value)), Buffer.from(value)]);
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
