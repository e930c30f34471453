/** Tests that a fault of the proxy hits only the planned requests. */
import { once } from 'node:events';
import { createConnection, createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { APIS, type Api, answeredId, FrameCutter, requestHead } from './kafkaFrames.ts';
import { type KafkaProxy, startKafkaProxy } from './kafkaProxy.ts';

test('finds frames in arbitrary chunks', () => {
  const frames = ['one', 'x'.repeat(3000), ''].map((text, id) => aRequest('Produce', id, text));
  const bytes = Buffer.concat(frames);
  for (const size of [1, 2, 5, 14, 1000, bytes.length]) {
    const cutter = new FrameCutter();
    const found = Array.from({ length: Math.ceil(bytes.length / size) }, (_, piece) =>
      cutter.cut(bytes.subarray(piece * size, (piece + 1) * size)),
    ).flat();
    expect(found).toEqual(frames);
  }
});

test('forwards requests and responses unchanged', async () => {
  const broker = await aBroker();
  const client = await aClient(await aProxy(broker));
  const requests = ['one', 'x'.repeat(200_000), ''].map((text, id) => aRequest('Produce', id, text));
  for (const request of requests) client.socket.write(request);
  await expect.poll(() => client.answers.length).toBe(3);
  expect(broker.requests).toEqual(requests);
  expect(client.answers.map(answeredId)).toEqual([0, 1, 2]);
  expect(client.answers.map((answer) => answer.length)).toEqual([11, 200_008, 8]);
});

test('replaces ports only in responses that name brokers', async () => {
  const [one, other] = [await aBroker(), await aBroker()];
  const proxy = await aProxy(one, other);
  const client = await aClient(proxy);
  const named = `${nameOf(one.port)} and ${nameOf(other.port)} and ${nameOf(7)}`;
  const ours = portsOf(proxy).map(nameOf).join(' and ');
  for (const [id, api] of (['Metadata', 'FindCoordinator', 'Produce'] as const).entries()) {
    client.socket.write(aRequest(api, id, named));
  }
  await expect.poll(() => client.answers.length).toBe(3);
  const texts = client.answers.map((answer) => answer.subarray(8).toString('latin1'));
  const expected = `${ours} and ${nameOf(7)}`;
  expect(texts).toEqual([expected, expected, named]);
});

test('drops the response to the planned request after the broker has processed it', async () => {
  const broker = await aBroker();
  const proxy = await aProxy(broker);
  const plan = proxy.plan({ api: 'Produce', fault: 'answerLost', names: 'topic', when: (nth) => nth === 2 });
  const client = await aClient(proxy);
  for (const [id, text] of ['other', 'topic', 'topic'].entries())
    client.socket.write(aRequest(id === 0 ? 'EndTxn' : 'Produce', id, text));
  await client.closed;
  expect(client.answers.map(answeredId)).toEqual([0, 1]);
  expect(broker.requests.map((request) => requestHead(request).correlationId)).toEqual([0, 1, 2]);
  expect([plan.hits, plan.answered]).toEqual([1, 1]);
  const next = await aClient(proxy);
  next.socket.write(aRequest('Produce', 3, 'topic'));
  await expect.poll(() => next.answers.length).toBe(1);
});

test('holds a response and later frames until it is released', async () => {
  const broker = await aBroker();
  const proxy = await aProxy(broker);
  const plan = proxy.plan({ api: 'OffsetCommit', fault: 'answerHeld', when: (nth) => nth === 1 });
  const client = await aClient(proxy);
  for (const id of [0, 1, 2]) client.socket.write(aRequest(id === 1 ? 'OffsetCommit' : 'Heartbeat', id));
  await expect.poll(() => broker.requests.length).toBe(3);
  await roundTrip(proxy);
  expect(client.answers.map(answeredId)).toEqual([0]);
  plan.release();
  await expect.poll(() => client.answers.map(answeredId)).toEqual([0, 1, 2]);
});

test('holds a request and later frames until it is released', async () => {
  const broker = await aBroker();
  const proxy = await aProxy(broker);
  const plan = proxy.plan({ api: 'EndTxn', fault: 'requestHeld', when: (nth) => nth === 1 });
  const client = await aClient(proxy);
  for (const id of [0, 1, 2]) client.socket.write(aRequest(id === 1 ? 'EndTxn' : 'Heartbeat', id));
  await expect.poll(() => client.answers.length).toBe(1);
  await roundTrip(proxy);
  expect(broker.requests.map((request) => requestHead(request).correlationId)).toEqual([0, ROUND_TRIP]);
  plan.release();
  await expect.poll(() => client.answers.map(answeredId)).toEqual([0, 1, 2]);
});

test('delivers a late request after its client has disconnected, and reports when the broker has processed it', async () => {
  const broker = await aBroker();
  const proxy = await aProxy(broker);
  const plan = proxy.plan({ api: 'EndTxn', fault: 'requestLate', when: () => true });
  const client = await aClient(proxy);
  client.socket.write(aRequest('EndTxn', 5, 'late'));
  await client.closed;
  await roundTrip(proxy);
  expect([broker.requests.length, plan.hits, plan.answered]).toEqual([1, 1, 0]);
  plan.release();
  await expect.poll(() => plan.answered).toBe(1);
  expect(broker.requests.at(-1)?.subarray(12).toString()).toBe('late');
  // The connection to the broker is closed.
  await expect.poll(() => broker.connections).toBe(1);
});

test('a blocked broker keeps connections, accepts new ones, and receives the held frames later', async () => {
  const [sick, well] = [await aBroker(), await aBroker()];
  const proxy = await aProxy(sick, well);
  const before = await aClient(proxy);
  const heal = proxy.blackHole(sick.port);
  const during = await aClient(proxy);
  before.socket.write(aRequest('Produce', 1));
  during.socket.write(aRequest('Produce', 2));
  await roundTrip(proxy, 1);
  expect([sick.requests.length, before.answers.length, during.answers.length]).toEqual([0, 0, 0]);
  expect([before.socket.closed, during.socket.closed]).toEqual([false, false]);
  heal();
  await expect.poll(() => [...before.answers, ...during.answers].map(answeredId)).toEqual([1, 2]);
  await roundTrip(proxy);
});

const ROUND_TRIP = 99;

interface FakeBroker {
  readonly port: number;
  readonly requests: Buffer[];
  readonly connections: number;
}

/** Starts a broker that answers each request with the bytes after its correlation id. */
async function aBroker(): Promise<FakeBroker> {
  const requests: Buffer[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    const cutter = new FrameCutter();
    socket.on('data', (chunk) => {
      for (const frame of cutter.cut(chunk)) {
        requests.push(frame);
        socket.write(framed(int32(requestHead(frame).correlationId), frame.subarray(12)));
      }
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  return {
    port: typeof address === 'object' ? (address?.port ?? 0) : 0,
    requests,
    get connections() {
      return sockets.size;
    },
  };
}

async function aProxy(...brokers: readonly FakeBroker[]): Promise<KafkaProxy> {
  const proxy = await startKafkaProxy(brokers.map(({ port }) => `127.0.0.1:${port}`).join(','));
  onTestFinished(() => proxy.close());
  return proxy;
}

async function aClient(proxy: KafkaProxy, broker = 0) {
  const socket = createConnection({ host: '127.0.0.1', port: portsOf(proxy)[broker] ?? 0 });
  onTestFinished(() => void socket.destroy());
  const [answers, cutter] = [[] as Buffer[], new FrameCutter()];
  socket.on('data', (chunk) => answers.push(...cutter.cut(chunk)));
  const closed = once(socket, 'close');
  await once(socket, 'connect');
  return { socket, answers, closed };
}

/** Sends a request, so that everything that was sent earlier on other connections has arrived. */
async function roundTrip(proxy: KafkaProxy, broker = 0): Promise<void> {
  const client = await aClient(proxy, broker);
  client.socket.write(aRequest('Fetch', ROUND_TRIP));
  await expect.poll(() => client.answers.length).toBe(1);
}

function aRequest(api: Api, id: number, text = ''): Buffer {
  const head = Buffer.alloc(8);
  head.writeInt16BE(APIS[api], 0);
  head.writeInt32BE(id, 4);
  return framed(head, Buffer.from(text, 'latin1'));
}

function framed(...parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  return Buffer.concat([int32(body.length), body]);
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

/** Encodes a broker like a response: its host, then its port. */
function nameOf(port: number): string {
  return `127.0.0.1${int32(port).toString('latin1')}`;
}

function portsOf({ brokers }: KafkaProxy): number[] {
  return brokers.split(',').map((address) => Number(address.split(':')[1]));
}
