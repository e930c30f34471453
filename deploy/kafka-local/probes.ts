/** Checks whether a node of a local stack responds. Each kind of node gets a request that only this kind can answer. */
import { connect } from 'node:net';
import {
  CLICKHOUSE_USER,
  type ClickHouseNode,
  type Node,
  type RegistryNode,
  registryUrl,
  type S3Node,
} from './stackState.ts';

const PROBE_TIMEOUT_MS = 2_000;

/** Kafka metadata request, version 1: size, API key, version, correlation id, client id, and number of topics. */
const METADATA_REQUEST = Buffer.from([0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0]);

export async function answers(node: Node): Promise<boolean> {
  switch (node.kind) {
    case 'broker':
      return (await brokersKnownTo(node.port)).length > 0;
    case 'registry':
      return registryAnswers(node);
    case 'clickhouse':
      return clickhouseAnswers(node);
    case 's3':
      return s3Answers(node);
  }
}

/** Asks the broker on this port for the ids of all live brokers. Returns an empty list if the broker does not respond. */
export function brokersKnownTo(port: number): Promise<number[]> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    const socket = connect({ host: '127.0.0.1', port, timeout: PROBE_TIMEOUT_MS });
    socket.on('connect', () => socket.write(METADATA_REQUEST));
    socket.on('data', (chunk) => {
      chunks.push(chunk);
      const answer = Buffer.concat(chunks);
      if (answer.length < 4 || answer.length < 4 + answer.readInt32BE(0)) return;
      resolve(brokerIdsIn(answer));
      socket.destroy();
    });
    socket.on('timeout', () => socket.destroy());
    // Node emits `close` after an `error` event, and the handler of `close` resolves the promise with an empty list.
    socket.on('error', () => {});
    socket.on('close', () => resolve([]));
  });
}

/** Decodes a metadata response: size, correlation id, and an array of (id, host, port, rack). Strings have a 16-bit length. */
function brokerIdsIn(answer: Buffer): number[] {
  let at = 8;
  const count = answer.readInt32BE(at);
  at += 4;
  const ids: number[] = [];
  for (let i = 0; i < count; i++) {
    ids.push(answer.readInt32BE(at));
    at += 4;
    at += 2 + answer.readInt16BE(at);
    at += 4;
    // If the length of the rack name is -1, the broker has no rack.
    at += 2 + Math.max(0, answer.readInt16BE(at));
  }
  return ids;
}

async function registryAnswers(registry: RegistryNode): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(PROBE_TIMEOUT_MS);
    const response = await fetch(`${registryUrl(registry)}/subjects`, { signal });
    return response.ok && Array.isArray(await response.json());
  } catch {
    return false;
  }
}

/** Returns true if ClickHouse accepts the password of this stack. A ClickHouse of another stack rejects the password. */
async function clickhouseAnswers({ port, password }: ClickHouseNode): Promise<boolean> {
  const headers = { 'x-clickhouse-user': CLICKHOUSE_USER, 'x-clickhouse-key': password };
  try {
    const signal = AbortSignal.timeout(PROBE_TIMEOUT_MS);
    const options = { method: 'POST', body: 'SELECT 1', headers, signal };
    const response = await fetch(`http://127.0.0.1:${port}/`, options);
    return response.ok && (await response.text()) === '1\n';
  } catch {
    return false;
  }
}

async function s3Answers({ port }: S3Node): Promise<boolean> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/`, {
      signal: AbortSignal.timeout(PROBE_TIMEOUT_MS),
    });
    return response.status === 403 && response.headers.get('server') === 'VERSITYGW';
  } catch {
    return false;
  }
}
