/** Defines the overload of another tenant: a number of requests per second, or full speed. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { grouped } from '../path/pathReport.ts';
import { headOf, requestOf } from '../path/rawHttp.ts';
import { bodiesOf, type FairnessDeployment, pageOf, type Tenant, writesOf } from './fairnessDeployment.ts';
import type { Answers } from './fairnessFigures.ts';

/** Attack, sent to the attacker's thread as a message. */
export type Attack = {
  readonly url: string;
  readonly connections: number;
  readonly forMs: number;
} & (
  | {
      readonly kind: 'requests';
      readonly requests: readonly Uint8Array[];
      /** Requests per second. At full speed, each connection waits for its response. */
      readonly perSecond: number | 'full speed';
    }
  /** Bytes that each socket sends at once, and whether it continues to send. */
  | { readonly kind: 'sockets'; readonly bytes: Uint8Array; readonly goesOn: boolean }
  /**
   * Bytes that each of `connections` new connections per second sends at once. A connection stays open until the server
   * ends it.
   */
  | { readonly kind: 'newConnections'; readonly bytes: Uint8Array }
);

/** Attack whose duration the benchmark chooses. */
export type Plan = Attack extends infer One ? (One extends Attack ? Omit<One, 'forMs'> : never) : never;

export interface Attacked {
  readonly answers: Answers;
  readonly withoutRetryAfter: number;
}

const ATTACKER = new URL('attacker.ts', import.meta.url);

/** Resolves after the attack. */
export async function attacked(attack: Attack): Promise<Attacked> {
  const worker = new Worker(ATTACKER, { workerData: attack });
  try {
    const [message] = await once(worker, 'message');
    return message;
  } finally {
    await worker.terminate();
  }
}

export interface Beside {
  readonly beside: string;
  readonly victim: 'writes' | 'reads';
  readonly plan: Plan;
}

/** Factor between the attack and the limit or the capacity of the ingest. */
export const TEN_TIMES = 10;
const EVENTS_A_REQUEST = 20;
const EVENTS_A_SECOND = 500;
const REQUESTS_A_SECOND = 50;
const REFUSALS_A_SECOND = 400;
const CONNECTIONS = 32;
const HELD_BYTES = 8 * 1024 * 1024 - 1;
const READERS = 16;
const PAGE = 1_000;
const WRITERS = 8;
const LARGEST_BATCH = 500;
const PIPELINES = 40;
const PIPELINED = 1_600;
const STRANGERS_A_SECOND = 40;
const ENDLESS_BYTES = 1024 ** 4;

/**
 * Returns the rows of the benchmark at one ingest. Each row has its own tenant, because the ingests that a tenant uses share its
 * limit.
 */
export async function rowsOf(deployment: FairnessDeployment, url: string): Promise<Beside[]> {
  const overEvents = await deployment.tenant({ eventsPerSecond: EVENTS_A_SECOND, burstSeconds: 1 });
  const overRequests = await deployment.tenant({ requestsPerSecond: REQUESTS_A_SECOND, burstSeconds: 1 });
  const [holder, reader, writer, pipeliner] = [
    await deployment.tenant(),
    await deployment.tenant(),
    await deployment.tenant(),
    await deployment.tenant(),
  ];
  await deployment.fill(reader, 5 * PAGE);
  const requests = (
    of: readonly Uint8Array[],
    perSecond: number | 'full speed',
    connections = CONNECTIONS,
  ): Plan => ({ kind: 'requests', url, requests: of, perSecond, connections });
  const sockets = (bytes: Uint8Array, connections = CONNECTIONS, goesOn = false): Plan => ({
    ...{ kind: 'sockets', url, bytes, connections, goesOn },
  });
  const writes = (of: Tenant) => writesOf(url, of, EVENTS_A_REQUEST);
  const overEventsPlan = requests(writes(overEvents), (TEN_TIMES * EVENTS_A_SECOND) / EVENTS_A_REQUEST);
  const pages = requests([pageOf(url, reader.token, PAGE)], 'full speed', READERS);
  const pagesAre = `${READERS} connections that read pages of ${PAGE} events, as fast as they go`;
  const held = Buffer.concat([
    headOf('POST', url, holder.token, HELD_BYTES),
    Buffer.alloc(HELD_BYTES - 1, ' '),
  ]);
  return [
    {
      beside: `ten times its limit of events (${EVENTS_A_SECOND} a second), ${EVENTS_A_REQUEST} a request`,
      victim: 'writes',
      plan: overEventsPlan,
    },
    {
      beside: `ten times its limit of requests (${REQUESTS_A_SECOND} a second)`,
      victim: 'writes',
      plan: requests(writes(overRequests), TEN_TIMES * REQUESTS_A_SECOND),
    },
    {
      beside: `${REFUSALS_A_SECOND} rejected requests a second: 401, 404, 400, 429 in turn`,
      victim: 'writes',
      plan: requests(await refusals(deployment, url), REFUSALS_A_SECOND),
    },
    {
      beside: `${WRITERS} connections that write ${LARGEST_BATCH} events a request, as fast as they go`,
      victim: 'writes',
      plan: requests(writesOf(url, writer, LARGEST_BATCH), 'full speed', WRITERS),
    },
    {
      beside: `${PIPELINES} sockets that send ${grouped(PIPELINED)} requests at once`,
      victim: 'writes',
      plan: sockets(pipelineOf(url, pipeliner), PIPELINES),
    },
    {
      beside: `${STRANGERS_A_SECOND} new connections a second that send ${grouped(PIPELINED)} requests without a token each`,
      victim: 'writes',
      plan: {
        ...{ kind: 'newConnections', url, connections: STRANGERS_A_SECOND },
        bytes: withoutToken(PIPELINED),
      },
    },
    {
      beside: `${CONNECTIONS} sockets with an incomplete body of 8 MiB − 1 each`,
      victim: 'writes',
      plan: sockets(held),
    },
    {
      beside: `${CONNECTIONS} sockets with a body that continues after its 401`,
      victim: 'writes',
      plan: sockets(headOf('POST', url, wrong(holder.token), ENDLESS_BYTES), CONNECTIONS, true),
    },
    { beside: pagesAre, victim: 'writes', plan: pages },
    { beside: pagesAre, victim: 'reads', plan: pages },
  ];
}

/** Returns a pipeline of requests. The last request asks the server to close the connection. */
function pipelineOf(url: string, tenant: Tenant): Buffer {
  const [body = Buffer.alloc(0)] = bodiesOf(1, 1, tenant.sessionId);
  const writes = Array.from({ length: PIPELINED }, () => requestOf(url, tenant.token, body));
  return Buffer.concat([
    ...writes,
    Buffer.from('GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'),
  ]);
}

/** Returns pipelined requests without a token. */
export function withoutToken(count: number): Buffer {
  return Buffer.from('GET /v1/quota HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(count));
}

/** Returns requests that are rejected for different reasons, each of a realistic size. */
async function refusals(deployment: FairnessDeployment, url: string): Promise<Buffer[]> {
  const [stranger, limited] = [
    await deployment.tenant(),
    await deployment.tenant({ requestsPerSecond: 1, burstSeconds: 1 }),
  ];
  const [body = Buffer.alloc(0)] = bodiesOf(1, EVENTS_A_REQUEST, limited.sessionId);
  return [
    requestOf(url, wrong(stranger.token), body),
    // A session of another tenant counts as unknown.
    requestOf(url, stranger.token, body),
    requestOf(url, stranger.token, body.subarray(0, -1)),
    requestOf(url, limited.token, body),
  ];
}

function wrong(token: string): string {
  return `${token.slice(0, -1)}${token.endsWith('0') ? '1' : '0'}`;
}
