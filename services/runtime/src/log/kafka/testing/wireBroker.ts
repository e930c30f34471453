/**
 * A broker on a port of this process that takes what a producer of kafkajs asks, and answers each Produce as the test
 * says. As in Kafka's own, a connection's next request waits until the one before it is answered.
 */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';

export interface WireBroker {
  /** `host:port`. */
  readonly address: string;
  /** How often a producer has asked for an id. */
  readonly producerIds: () => number;
  close(): Promise<void>;
}

export interface WireBrokerOptions {
  readonly topic: string;
  readonly partitions: number;
  /** @returns the error's code, and 0 where there is none. */
  produce(partition: number): number | Promise<number>;
}

const PRODUCE = 0;
const METADATA = 3;
const API_VERSIONS = 18;
const INIT_PRODUCER_ID = 22;
/** The one version of each that it speaks. */
const VERSIONS = { [PRODUCE]: 3, [METADATA]: 1, [API_VERSIONS]: 0, [INIT_PRODUCER_ID]: 0 };

export async function startWireBroker(options: WireBrokerOptions): Promise<WireBroker> {
  const sockets = new Set<Socket>();
  const ends = new Map<number, number>();
  let producerIds = 0;
  let port = 0;
  const answers: Readonly<Record<number, (body: Buffer, version: number) => Buffer | Promise<Buffer>>> = {
    [API_VERSIONS]: (_, version) => apiVersions(version),
    [METADATA]: () => metadata(options, port),
    [INIT_PRODUCER_ID]: () => {
      producerIds += 1;
      return Buffer.concat([int32(0), int16(0), int64(producerIds), int16(0)]);
    },
    [PRODUCE]: async (body) => {
      const { partition, records } = produced(body);
      const errorCode = await options.produce(partition);
      const baseOffset = ends.get(partition) ?? 0;
      if (errorCode === 0) ends.set(partition, baseOffset + records);
      const head = [int32(1), text(options.topic), int32(1), int32(partition), int16(errorCode)];
      return Buffer.concat([...head, int64(errorCode === 0 ? baseOffset : -1), int64(-1), int32(0)]);
    },
  };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined);
    let last: Promise<unknown> = Promise.resolve();
    eachRequest(socket, ({ apiKey, version, correlationId, body }) => {
      last = last.then(async () => {
        const answer = await answers[apiKey]?.(body, version);
        if (answer === undefined) throw new Error(`a request of key ${apiKey}`);
        if (socket.writable) socket.write(Buffer.concat([int32(4 + answer.length), correlationId, answer]));
      });
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const listening = server.address();
  if (typeof listening === 'object' && listening !== null) port = listening.port;
  return {
    address: `127.0.0.1:${port}`,
    producerIds: () => producerIds,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

interface WireRequest {
  readonly apiKey: number;
  readonly version: number;
  readonly correlationId: Buffer;
  /** Behind the client's name. */
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
  // A newer question than it speaks: as Kafka does, it says so in the oldest form.
  const UNSUPPORTED_VERSION = 35;
  const spoken = Object.entries(VERSIONS).map(([key, only]) =>
    Buffer.concat([int16(Number(key)), int16(only), int16(only)]),
  );
  return Buffer.concat([int16(version === 0 ? 0 : UNSUPPORTED_VERSION), int32(spoken.length), ...spoken]);
}

function metadata({ topic, partitions }: WireBrokerOptions, port: number): Buffer {
  const own = Array.from({ length: partitions }, (_, partition) =>
    Buffer.concat([int16(0), int32(partition), int32(1), int32(1), int32(1), int32(1), int32(1)]),
  );
  const brokers = [int32(1), int32(1), text('127.0.0.1'), int32(port), int16(-1), int32(1)];
  const topics = [int32(1), int16(0), text(topic), Buffer.of(0), int32(partitions), ...own];
  return Buffer.concat([...brokers, ...topics]);
}

/** Of the first partition, which kafkajs sends alone. */
function produced(body: Buffer): { partition: number; records: number } {
  // Behind the transactional id, the acks, the timeout, and the number of topics.
  let at = 2 + Math.max(body.readInt16BE(0), 0) + 2 + 4 + 4;
  at += 2 + body.readInt16BE(at) + 4;
  const BATCH_COUNT_AT = 57;
  return { partition: body.readInt32BE(at), records: body.readInt32BE(at + 8 + BATCH_COUNT_AT) };
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
