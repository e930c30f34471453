/** What another tenant does that takes too much: for so long, and so many a second, so that the machine has room for both. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { requestOf } from '../path/rawHttp.ts';
import type { Answers } from './fairnessFigures.ts';
import { bodiesOf, EVENTS_PATH, type FairnessHouse, pageOf, type Tenant } from './fairnessHouse.ts';

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

const EVENTS_A_REQUEST = 20;
const EVENTS_A_SECOND = 500;
const REQUESTS_A_SECOND = 50;
const REFUSALS_A_SECOND = 400;
const TEN_TIMES = 10;
const CONNECTIONS = 32;
const HELD_BYTES = 8 * 1024 * 1024 - 1;
const READERS = 16;
const PAGES_A_SECOND = 10;
const PAGE = 1_000;
/** Bodies that differ. */
const POOLED = 200;

/** The rows of the bench. Each tenant is one of its own. */
export async function rowsOf(house: FairnessHouse): Promise<Beside[]> {
  const { url } = house;
  const overEvents = await house.tenant({ eventsPerSecond: EVENTS_A_SECOND, burstSeconds: 1 });
  const overRequests = await house.tenant({ requestsPerSecond: REQUESTS_A_SECOND, burstSeconds: 1 });
  const [holder, reader] = [await house.tenant(), await house.tenant()];
  await house.fill(reader, 5 * PAGE);
  const requests = (of: readonly Uint8Array[], perSecond: number, connections = CONNECTIONS): Plan => ({
    ...{ kind: 'requests', url, requests: of, perSecond, connections },
  });
  const writes = ({ token, sessionId }: Tenant) =>
    bodiesOf(POOLED, EVENTS_A_REQUEST, sessionId).map((body) => requestOf(url, token, body));
  const overEventsPlan = requests(writes(overEvents), (TEN_TIMES * EVENTS_A_SECOND) / EVENTS_A_REQUEST);
  const pages = requests([pageOf(house.url, reader.token, PAGE)], PAGES_A_SECOND, READERS);
  const held: Plan = {
    ...{ kind: 'held bodies', url, connections: CONNECTIONS, bytes: HELD_BYTES },
    head: headOf(url, holder.token, HELD_BYTES),
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
      plan: requests(await refusals(house), REFUSALS_A_SECOND),
    },
    { beside: `${CONNECTIONS} sockets that hold a body of 8 MiB − 1 each`, victim: 'writes', plan: held },
    { beside: `${PAGES_A_SECOND} pages of ${PAGE} events a second`, victim: 'writes', plan: pages },
    { beside: `${PAGES_A_SECOND} pages of ${PAGE} events a second`, victim: 'reads', plan: pages },
  ];
}

/** Each of a size that a game sends. */
async function refusals(house: FairnessHouse): Promise<Buffer[]> {
  const [stranger, limited] = [
    await house.tenant(),
    await house.tenant({ requestsPerSecond: 1, burstSeconds: 1 }),
  ];
  const [body = Buffer.alloc(0)] = bodiesOf(1, EVENTS_A_REQUEST, limited.sessionId);
  const token = `${stranger.token.slice(0, -1)}${stranger.token.endsWith('0') ? '1' : '0'}`;
  return [
    requestOf(house.url, token, body),
    // A session of another tenant is one that is not there.
    requestOf(house.url, stranger.token, body),
    requestOf(house.url, stranger.token, body.subarray(0, -1)),
    requestOf(house.url, limited.token, body),
  ];
}

function headOf(url: string, token: string, bytes: number): Buffer {
  const { host } = new URL(url);
  return Buffer.from(
    `POST ${EVENTS_PATH} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${bytes}\r\n\r\n`,
  );
}
