/** Builders for the end-to-end tests: separate projects, events, keys, and a wait for a condition. */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { SCOPES } from '@questlog/schemas/topics/directoryEntry';
import { eventId } from '@questlog/schemas/uuid';
import type { Answer, Product } from './product.ts';

/** The part of a product that clients use. A deployment of several processes also has it. */
export type Reached = Pick<Product, 'request' | 'admin'>;

export interface ProjectOptions {
  readonly revision?: 'A' | 'B' | null;
  readonly monthlySoftQuota?: number | null;
  readonly spread?: number;
  /** An existing tenant, instead of a new one. */
  readonly tenantId?: string;
  /** Name of the project, and of the tenant if it is new. */
  readonly name?: string;
}

interface Ids {
  readonly tenantId: string;
  readonly projectId: string;
  readonly sessionId: string;
  readonly token: string;
}

/** A project with its own session and token. */
export interface TestProject extends Ids {
  /** POST /v1/ingest/events. A Buffer or string is sent unchanged, any other value as JSON. */
  post(body: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** POST /v1/ingest/reports. A Buffer or string is sent unchanged, any other value as JSON. */
  report(body: unknown, headers?: Record<string, string>): Promise<Answer>;
  get(path: string): Promise<Answer>;
  /** Sends a request. Repeats a read that is answered 503 for as long as an event can take until it is readable. */
  request(method: string, path: string, options?: TestRequest): Promise<Answer>;
  /** Registers a session and returns its id. */
  session(of?: Record<string, unknown>): Promise<string>;
}

export interface TestRequest {
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

/** Contract: an accepted event is available under `GET` within 10 s. */
const PROJECTED_WITHIN_MS = 10_000;
const READS = ['GET', 'HEAD'];

export async function aProject(product: Reached, of: ProjectOptions = {}): Promise<TestProject> {
  const { revision = null, monthlySoftQuota = null, spread = 1, name } = of;
  const tenant = { name: name ?? 'a studio', monthlySoftQuota, spread };
  const tenantId = of.tenantId ?? (await create(product, '/admin/tenants', tenant)).id;
  const project = { tenantId, name: name ?? 'a game', revision };
  const projectId = (await create(product, '/admin/projects', project)).id;
  const { token } = await create(product, '/admin/tokens', { projectId, scopes: SCOPES });
  const own = onto({ tenantId, projectId, token, sessionId: '' }, product);
  return { ...own, sessionId: await own.session() };
}

interface CreatedToken {
  readonly id: string;
  readonly token: string;
  readonly scopes: string[];
}

/** Creates another token of the project. */
export async function aToken(
  product: Reached,
  projectId: string,
  of: { scopes?: readonly string[]; expiresAt?: string } = {},
): Promise<CreatedToken> {
  return await create(product, '/admin/tokens', { projectId, ...of });
}

/** The same project, accessed through another start of the product. */
export function onto<T extends Ids>(project: T, product: Reached): T & TestProject {
  const request: TestProject['request'] = async (method, path, { body, headers } = {}) => {
    const options = { body, headers: { Authorization: `Bearer ${project.token}`, ...headers } };
    const deadlineMs = Date.now() + PROJECTED_WITHIN_MS;
    for (;;) {
      const answer = await product.request(method, path, options);
      const isRetried = answer.status === 503 && READS.includes(method) && Date.now() < deadlineMs;
      if (!isRetried) return answer;
    }
  };
  return {
    ...project,
    request,
    post: (body, headers = {}) => request('POST', '/v1/ingest/events', { body, headers }),
    report: (body, headers = {}) => request('POST', '/v1/ingest/reports', { body, headers }),
    get: (path) => request('GET', path),
    session: async (input = {}) => {
      const answer = await request('POST', '/v1/ingest/sessions', { body: input });
      if (answer.status !== 201)
        throw new Error(`registering a session failed with status ${answer.status}: ${answer.text()}`);
      return answer.json().id;
    },
  };
}

async function create(product: Reached, path: string, body: object): Promise<CreatedToken> {
  const answer = await product.admin('POST', path, body);
  if (answer.status !== 201)
    throw new Error(`POST ${path} failed with status ${answer.status}: ${answer.text()}`);
  return answer.json();
}

/** A link as `GET /v1/reports/{id}` lists it. */
export interface ListedLink {
  readonly eventId: string;
  readonly state: string;
  readonly source: string;
}

/** The fields of an event of `GET /v1/reports/{id}/events` that concern its links. */
export interface ListedEvent {
  readonly id: string;
  readonly reportIds: string[];
  readonly link: { readonly state: string; readonly source: string };
}

/** An event as a game sends it. */
export function anEvent(of: Record<string, unknown> = {}): Record<string, unknown> {
  return { eventType: 'checkpoint', ...of };
}

/** `count` events that differ in their payload's `n`. */
export function events(count: number, of: Record<string, unknown> = {}): Record<string, unknown>[] {
  return Array.from({ length: count }, (_, n) => anEvent({ payload: { n }, ...of }));
}

/** An event as raw text, with its exact payload bytes. */
export function rawEvent(payload: Buffer | string, of: Record<string, unknown> = {}): Buffer {
  const head = JSON.stringify(anEvent(of)).slice(0, -1);
  return Buffer.concat([Buffer.from(`${head},"payload":`), Buffer.from(payload), Buffer.from('}')]);
}

/** An `Idempotency-Key`: a UUIDv7 with the given time, by default the current time. */
export function aKey(millis = Date.now()): string {
  return eventId(millis, 0, randomBytes(8));
}

/** Returns the hash of a body as it is sent. */
export function sha256(body: string): Buffer {
  return createHash('sha256').update(body).digest();
}

export function anUnknownId(): string {
  return randomUUID();
}

/**
 * Timeout of a test that recounts. Recounts of one process run one after another, and each also reads the events of other tests.
 */
export const RECOUNT_WITHIN_MS = 120_000;

/** Wait between two polls. The wait grows with the elapsed time because every poll takes time from the product under test. */
const POLL_MS = { min: 25, max: 250, fractionOfElapsed: 0.1 };

/** Polls until `isDone` accepts the value. @returns that value @throws with the last value after `withinMs` */
export async function eventually<T>(
  poll: () => Promise<T>,
  isDone: (value: T) => boolean,
  withinMs = 20_000,
): Promise<T> {
  const startedMs = Date.now();
  for (;;) {
    const value = await poll();
    if (isDone(value)) return value;
    const waitedMs = Date.now() - startedMs;
    if (waitedMs > withinMs)
      throw new Error(`condition not met within ${withinMs} ms; last value: ${JSON.stringify(value)}`);
    await delay(Math.min(POLL_MS.max, Math.max(POLL_MS.min, waitedMs * POLL_MS.fractionOfElapsed)));
  }
}
