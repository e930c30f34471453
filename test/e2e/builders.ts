/** Builders of the end-to-end tests: projects of their own, events, keys, and a wait for a condition. */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { SCOPES } from '@questlog/schemas/topics/directoryEntry';
import { eventId } from '@questlog/schemas/uuid';
import type { Answer, Product } from './product.ts';

/** The part of a product that clients reach; a deployment of many processes has it too. */
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

/** A project with a session and a token of its own. */
export interface TestProject extends Ids {
  /** POST /v1/ingest/events. A Buffer or string goes as it is, anything else as JSON. */
  post(body: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** POST /v1/ingest/reports. A Buffer or string goes as it is, anything else as JSON. */
  report(body: unknown, headers?: Record<string, string>): Promise<Answer>;
  get(path: string): Promise<Answer>;
  /** A read is asked again, as a 503 wants it, for as long as an event may take to be there. */
  request(method: string, path: string, options?: TestRequest): Promise<Answer>;
  /** Registers a session and returns its id. */
  session(of?: Record<string, unknown>): Promise<string>;
}

export interface TestRequest {
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

/** Design, section 2: an accepted event is under `GET` within 10 s. */
const PROJECTED_WITHIN_MS = 10_000;
const READS = ['GET', 'HEAD'];

export async function aProject(product: Reached, of: ProjectOptions = {}): Promise<TestProject> {
  const { revision = null, monthlySoftQuota = null, spread = 1, name } = of;
  const tenant = { name: name ?? 'a studio', monthlySoftQuota, spread };
  const tenantId = of.tenantId ?? (await made(product, '/admin/tenants', tenant)).id;
  const project = { tenantId, name: name ?? 'a game', revision };
  const projectId = (await made(product, '/admin/projects', project)).id;
  const { token } = await made(product, '/admin/tokens', { projectId, scopes: SCOPES });
  const own = onto({ tenantId, projectId, token, sessionId: '' }, product);
  return { ...own, sessionId: await own.session() };
}

interface MadeToken {
  readonly id: string;
  readonly token: string;
  readonly scopes: string[];
}

/** The same project's view of another token. */
export async function aToken(
  product: Reached,
  projectId: string,
  of: { scopes?: readonly string[]; expiresAt?: string } = {},
): Promise<MadeToken> {
  return await made(product, '/admin/tokens', { projectId, ...of });
}

/** The same project, spoken to through another start of the product. */
export function onto<T extends Ids>(project: T, product: Reached): T & TestProject {
  const request: TestProject['request'] = async (method, path, { body, headers } = {}) => {
    const own = { body, headers: { Authorization: `Bearer ${project.token}`, ...headers } };
    const deadlineMs = Date.now() + PROJECTED_WITHIN_MS;
    for (;;) {
      const answer = await product.request(method, path, own);
      const isAgain = answer.status === 503 && READS.includes(method) && Date.now() < deadlineMs;
      if (!isAgain) return answer;
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
      if (answer.status !== 201) throw new Error(`a session was answered ${answer.status}: ${answer.text()}`);
      return answer.json().id;
    },
  };
}

async function made(product: Reached, path: string, body: object): Promise<MadeToken> {
  const answer = await product.admin('POST', path, body);
  if (answer.status !== 201) throw new Error(`${path} was answered ${answer.status}: ${answer.text()}`);
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

/** An event as raw text, its payload to the byte. */
export function rawEvent(payload: Buffer | string, of: Record<string, unknown> = {}): Buffer {
  const head = JSON.stringify(anEvent(of)).slice(0, -1);
  return Buffer.concat([Buffer.from(`${head},"payload":`), Buffer.from(payload), Buffer.from('}')]);
}

/** An `Idempotency-Key`: a UUIDv7, of now unless the time is given. */
export function aKey(millis = Date.now()): string {
  return eventId(millis, 0, randomBytes(8));
}

/** Of a body as it is sent. */
export function sha256(body: string): Buffer {
  return createHash('sha256').update(body).digest();
}

export function anUnknownId(): string {
  return randomUUID();
}

/** Of a test that recounts: recounts of one process run one after another, and each reads what other tests have sent, too. */
export const RECOUNT_WITHIN_MS = 120_000;

/** What has not come for a while may not come for as long again, and each look takes its time from what is waited for. */
const POLL_MS = { least: 25, most: 250, ofTheWait: 0.1 };

/** The first value of `look` for which `isThere` holds, or the failure of the last look once `withinMs` are over. */
export async function eventually<T>(
  look: () => Promise<T>,
  isThere: (value: T) => boolean,
  withinMs = 20_000,
): Promise<T> {
  const begunMs = Date.now();
  for (;;) {
    const value = await look();
    if (isThere(value)) return value;
    const waitedMs = Date.now() - begunMs;
    if (waitedMs > withinMs) throw new Error(`not within ${withinMs} ms; at last ${JSON.stringify(value)}`);
    await delay(Math.min(POLL_MS.most, Math.max(POLL_MS.least, waitedMs * POLL_MS.ofTheWait)));
  }
}
