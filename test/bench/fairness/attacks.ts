/** What another tenant does that takes too much: for so long, and so many a second, so that the machine has room for both. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { headOf, requestOf } from '../path/rawHttp.ts';
import { bodiesOf, type FairnessDeployment, pageOf, type Tenant, writesOf } from './fairnessDeployment.ts';
import type { Answers } from './fairnessFigures.ts';

/** Goes to the attacker's thread as it is. */
export type Attack = {
  readonly url: string;
  readonly connections: number;
  readonly forMs: number;
} & (
  | { readonly kind: 'requests'; readonly requests: readonly Uint8Array[]; readonly perSecond: number }
  /** Bodies of so many bytes, whose last one never comes. */
  | { readonly kind: 'held bodies'; readonly head: Uint8Array; readonly bytes: number }
);

/** Of one that lasts as long as the bench wants. */
export type Plan = Attack extends infer One ? (One extends Attack ? Omit<One, 'forMs'> : never) : never;

export interface Attacked {
  readonly answers: Answers;
  readonly withoutRetryAfter: number;
}

const ATTACKER = new URL('attacker.ts', import.meta.url);

/** Resolves when it is over. */
export async function attacked(attack: Attack): Promise<Attacked> {
  const worker = new Worker(ATTACKER, { workerData: attack });
  try {
    const [told] = await once(worker, 'message');
    return told;
  } finally {
    await worker.terminate();
  }
}

export interface Beside {
  readonly beside: string;
  readonly victim: 'writes' | 'reads';
  readonly plan: Plan;
}

/** Its limit, or what the ingest takes. */
export const TEN_TIMES = 10;
const EVENTS_A_REQUEST = 20;
const EVENTS_A_SECOND = 500;
const REQUESTS_A_SECOND = 50;
const REFUSALS_A_SECOND = 400;
const CONNECTIONS = 32;
const HELD_BYTES = 8 * 1024 * 1024 - 1;
const READERS = 16;
const PAGES_A_SECOND = 10;
const PAGE = 1_000;

/** The rows of the bench. Each tenant is one of its own. */
export async function rowsOf(deployment: FairnessDeployment): Promise<Beside[]> {
  const { url } = deployment;
  const overEvents = await deployment.tenant({ eventsPerSecond: EVENTS_A_SECOND, burstSeconds: 1 });
  const overRequests = await deployment.tenant({ requestsPerSecond: REQUESTS_A_SECOND, burstSeconds: 1 });
  const [holder, reader] = [await deployment.tenant(), await deployment.tenant()];
  await deployment.fill(reader, 5 * PAGE);
  const requests = (of: readonly Uint8Array[], perSecond: number, connections = CONNECTIONS): Plan => ({
    ...{ kind: 'requests', url, requests: of, perSecond, connections },
  });
  const writes = (of: Tenant) => writesOf(url, of, EVENTS_A_REQUEST);
  const overEventsPlan = requests(writes(overEvents), (TEN_TIMES * EVENTS_A_SECOND) / EVENTS_A_REQUEST);
  const pages = requests([pageOf(url, reader.token, PAGE)], PAGES_A_SECOND, READERS);
  const held: Plan = {
    ...{ kind: 'held bodies', url, connections: CONNECTIONS, bytes: HELD_BYTES },
    head: headOf('POST', url, holder.token, HELD_BYTES),
  };
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
      beside: `${REFUSALS_A_SECOND} refusals a second: 401, 404, 400, 429 in turn`,
      victim: 'writes',
      plan: requests(await refusals(deployment), REFUSALS_A_SECOND),
    },
    { beside: `${CONNECTIONS} sockets that hold a body of 8 MiB − 1 each`, victim: 'writes', plan: held },
    { beside: `${PAGES_A_SECOND} pages of ${PAGE} events a second`, victim: 'writes', plan: pages },
    { beside: `${PAGES_A_SECOND} pages of ${PAGE} events a second`, victim: 'reads', plan: pages },
  ];
}

/** Each of a size that a game sends. */
async function refusals(deployment: FairnessDeployment): Promise<Buffer[]> {
  const [stranger, limited] = [
    await deployment.tenant(),
    await deployment.tenant({ requestsPerSecond: 1, burstSeconds: 1 }),
  ];
  const [body = Buffer.alloc(0)] = bodiesOf(1, EVENTS_A_REQUEST, limited.sessionId);
  const token = `${stranger.token.slice(0, -1)}${stranger.token.endsWith('0') ? '1' : '0'}`;
  return [
    requestOf(deployment.url, token, body),
    // A session of another tenant is one that is not there.
    requestOf(deployment.url, stranger.token, body),
    requestOf(deployment.url, stranger.token, body.subarray(0, -1)),
    requestOf(deployment.url, limited.token, body),
  ];
}
