/** Builders for the end-to-end tests. They create projects, events, and keys. `eventually` waits for a condition. */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { pollUntil } from '@questlog/runtime/process/testing/pollUntil';
import { SCOPES } from '@questlog/schemas/topics/directoryEntry';
import { eventId } from '@questlog/schemas/uuid';
import type { Answer, Product } from './product.ts';

/** The functions that clients of a product use. A deployment with several processes has the same functions. */
export type Reached = Pick<Product, 'request' | 'admin'>;

export interface ProjectOptions {
  readonly revision?: 'A' | 'B' | null;
  readonly monthlySoftQuota?: number | null;
  readonly spread?: number;
  /** Id of an existing tenant. By default, a new tenant is created. */
  readonly tenantId?: string;
  /** Name of the project. A new tenant gets the same name. */
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
  /** Sends POST /v1/ingest/events. A Buffer or a string is sent unchanged. Any other value is sent as JSON. */
  post(body: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** Sends POST /v1/ingest/reports. A Buffer or a string is sent unchanged. Any other value is sent as JSON. */
  report(body: unknown, headers?: Record<string, string>): Promise<Answer>;
  get(path: string): Promise<Answer>;
  /** Sends a request. Retries a read while its response is a 503, for up to 10 s. */
  request(method: string, path: string, options?: TestRequest): Promise<Answer>;
  /** Registers a session and returns its id. */
  session(of?: Record<string, unknown>): Promise<string>;
}

export interface TestRequest {
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

/** Maximum time until an accepted event is available to reads, according to the contract. */
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

/** Creates another token for the project. */
export async function aToken(
  product: Reached,
  projectId: string,
  of: { scopes?: readonly string[]; expiresAt?: string } = {},
): Promise<CreatedToken> {
  return await create(product, '/admin/tokens', { projectId, ...of });
}

/** Returns the same project with functions that send requests to another start of the product. */
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

/** A link in the response of `GET /v1/reports/{id}`. */
export interface ListedLink {
  readonly eventId: string;
  readonly state: string;
  readonly source: string;
}

/** An event in the response of `GET /v1/reports/{id}/events`. The type has only the fields about links. */
export interface ListedEvent {
  readonly id: string;
  readonly reportIds: string[];
  readonly link: { readonly state: string; readonly source: string };
}

/** Returns an event as a game sends it. */
export function anEvent(of: Record<string, unknown> = {}): Record<string, unknown> {
  return { eventType: 'checkpoint', ...of };
}

/** Returns `count` events. The events differ in the `n` of their payload. */
export function events(count: number, of: Record<string, unknown> = {}): Record<string, unknown>[] {
  return Array.from({ length: count }, (_, n) => anEvent({ payload: { n }, ...of }));
}

/** Returns an event as bytes. The bytes of the payload are unchanged. */
export function rawEvent(payload: Buffer | string, of: Record<string, unknown> = {}): Buffer {
  const head = JSON.stringify(anEvent(of)).slice(0, -1);
  return Buffer.concat([Buffer.from(`${head},"payload":`), Buffer.from(payload), Buffer.from('}')]);
}

/** Returns an `Idempotency-Key`, a UUIDv7 with the given time. By default, the key has the current time. */
export function aKey(millis = Date.now()): string {
  return eventId(millis, 0, randomBytes(8));
}

/** Returns the SHA-256 hash of a body. */
export function sha256(body: string): Buffer {
  return createHash('sha256').update(body).digest();
}

export function anUnknownId(): string {
  return randomUUID();
}

/**
 * Timeout of a test that recounts. The recounts of one process run one after another, and each recount also reads the events of
 * other tests.
 */
export const RECOUNT_WITHIN_MS = 120_000;

/** Wait between two polls. The wait grows with the elapsed time, because each poll takes CPU time from the product under test. */
/** Polls until `isDone` accepts a value. @returns the accepted value @throws Error with the last value after `withinMs` */
export async function eventually<T>(
  poll: () => Promise<T>,
  isDone: (value: T) => boolean,
  withinMs = 20_000,
): Promise<T> {
  return await pollUntil(poll, isDone, withinMs);
}
