/** A request that is sent while its connection is closed fails. Without the patch, the request would never settle. */
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { type AddressInfo, createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { patchDisconnects } from './patches.ts';

/** Members that the connection pool of kafkajs uses. */
interface Connection {
  connect(): Promise<unknown>;
  disconnect(): Promise<unknown>;
  isConnected(): boolean;
  send(exchange: object): Promise<unknown>;
}

const kafkajs = createRequire(import.meta.url);
/** Number of turns to try. It is higher than the number of awaits in kafkajs between the call and the write. */
const TURNS = 12;

test('settles a request that is written at any moment of a close', async () => {
  patchDisconnects();
  const port = await aSilentBroker();
  const settled: [turns: number, how: unknown][] = [];
  for (let turns = 0; turns < TURNS; turns += 1) {
    const connection = aConnection(port);
    await connection.connect();
    const answered = connection.send(aRequest()).catch((error: Error) => error.name);
    for (let turn = 0; turn < turns; turn += 1) await null;
    await connection.disconnect();
    const isHanging = new Promise((resolve) => setImmediate(resolve, 'hangs'));
    settled.push([turns, await Promise.race([answered, isHanging])]);
    expect(connection.isConnected()).toBe(false);
  }
  const KNOWN = /^KafkaJS(ConnectionError|ConnectionClosedError|RequestTimeoutError)$/;
  expect(settled.filter(([, how]) => !KNOWN.test(String(how)))).toEqual([]);
});

/** Starts a broker that accepts connections and never responds. */
async function aSilentBroker(): Promise<number> {
  const server = createServer((socket) => socket.resume().on('error', () => {}));
  onTestFinished(() => void server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
}

function aConnection(port: number): Connection {
  const ConnectionClass: new (options: object) => Connection = kafkajs('kafkajs/src/network/connection');
  const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  return new ConnectionClass({
    ...{ host: '127.0.0.1', port, logger: { namespace: () => silent } },
    socketFactory: kafkajs('kafkajs/src/network/socketFactory')(),
    ...{ connectionTimeout: 1_000, requestTimeout: 20 },
  });
}

function aRequest(): object {
  const Encoder: new () => object = kafkajs('kafkajs/src/protocol/encoder');
  const request = { apiKey: 3, apiVersion: 0, apiName: 'Metadata', encode: async () => new Encoder() };
  return { request, response: { decode: async () => {}, parse: async () => {} } };
}
