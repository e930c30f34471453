/** Creates steady load on a deployment: clients that send events to all ingests, and reports about these events. */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '@questlog/runtime/process/errors';
import type { TestProject } from '../e2e/builders.ts';
import type { Answer, Product } from '../e2e/product.ts';
import { KillClient } from '../faults/killClient.ts';
import { SentLedger, sha256Of } from '../faults/ledger.ts';
import { type Random, seeded } from '../faults/seeded.ts';

export interface LoadOptions {
  readonly projects: readonly TestProject[];
  readonly reach: Pick<Product, 'request'>;
  readonly random: Random;
  /** Offset of the clocks of the games. */
  readonly shiftMs: number;
}

/** An accepted report. */
export interface FiledReport {
  readonly id: string;
  readonly projectId: string;
}

interface NewReport {
  readonly id: string;
  readonly sessionId?: string;
  readonly eventIds?: readonly string[];
}

const CLIENTS_PER_PROJECT = 4;
const MAX_BATCH = 40;
/** Pause between requests, which leaves CPU for the services, the brokers, and often another test. */
const REQUEST_PACE_MS = 400;
/** Requests per client between two reports of a project. The number of links per report grows with this value. */
const REQUESTS_PER_REPORT = 6;
const PEAK_MS = 3_000;
/** A report names events of the last requests, or one of the last sessions. */
const RECENT_REQUESTS = 40;
const RECENT_SESSIONS = 6;

export class Load {
  readonly ledger = new SentLedger();
  readonly reports: FiledReport[] = [];
  /** Numbers of 503 responses and of requests without a response. */
  refused = 0;
  unanswered = 0;
  /** Error of the last request without a response. */
  lastFailure = '';
  /** Duration of the slowest request, including failed requests. */
  slowestMs = 0;
  /** Pause between two requests of a client. */
  paceMs = REQUEST_PACE_MS;
  readonly #options: LoadOptions;
  readonly #clients: readonly KillClient[];
  #running: Promise<unknown> | undefined;
  #probes = 0;
  #isStopping = false;
  #isAbandoned = false;

  constructor(options: LoadOptions) {
    this.#options = options;
    this.#clients = options.projects.flatMap((project, number) => this.#clientsOf(project, number));
  }

  /** Starts the load. Can be called again after `stop`. */
  start(): void {
    this.#isStopping = false;
    this.#running = Promise.all([
      ...this.#clients.map((client) => this.#play(client)),
      ...this.#options.projects.map((project) => this.#track(project)),
    ]);
  }

  /** Ends the load without waiting for open requests, because no ingest is left to answer. */
  abandon(): void {
    this.#isStopping = true;
    this.#isAbandoned = true;
  }

  /** Sends at the maximum rate for a while, and then at about half of it. @returns the maximum requests per second. */
  async halfOfPeak(): Promise<number> {
    this.paceMs = 0;
    const before = this.ledger.requests.length;
    await delay(PEAK_MS);
    const perSecond = (this.ledger.requests.length - before) / (PEAK_MS / 1_000);
    // The average response time with all clients at the same time.
    this.paceMs = (this.#clients.length * 1_000) / Math.max(1, perSecond);
    return perSecond;
  }

  /** Resolves when every open request is answered. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#running;
    await Promise.all(this.#clients.map((client) => client.finish({ request: this.#send })));
  }

  /** Sends one event of the project's first session, to the ingest `at` or, by default, to any ingest. */
  async probe(
    { tenantId, projectId, token, sessionId }: TestProject,
    { key, at }: { readonly key?: string | undefined; readonly at?: Pick<Product, 'request'> } = {},
  ): Promise<Answer> {
    const sequence = this.#probes++;
    const payload = JSON.stringify({ probe: sequence });
    const body = Buffer.from(`{"sessionId":"${sessionId}","eventType":"probe","payload":${payload}}`);
    const sha256 = sha256Of(Buffer.from(payload));
    const event = { tenantId, projectId, sessionId, sha256, sequence, id: undefined };
    const request = { key, isLenient: false, body, events: [event] };
    this.ledger.add(request);
    const keyed = key === undefined ? {} : { 'Idempotency-Key': key };
    const headers = { Authorization: `Bearer ${token}`, ...keyed };
    const send = at?.request ?? this.#send;
    const answer = await send('POST', '/v1/ingest/events', { body, headers });
    if (answer.status === 201) this.ledger.acknowledge(request, [answer.json()[0].id]);
    return answer;
  }

  #clientsOf({ tenantId, projectId, token }: TestProject, number: number): KillClient[] {
    return Array.from({ length: CLIENTS_PER_PROJECT }, (_, i) => {
      const random = seeded(this.#options.random.between(0, 2 ** 31));
      const [name, mayOmitSession, maxBatch] = [`${number}-${i}`, number > 0, MAX_BATCH];
      const { shiftMs } = this.#options;
      const of = { name, tenantId, projectId, token, mayOmitSession, maxBatch, shiftMs, random };
      return new KillClient({ ...of, ledger: this.ledger });
    });
  }

  async #play(client: KillClient): Promise<void> {
    // A request without a response ends a session. The next session uses another ingest.
    while (!this.#isStopping) await client.play({ request: this.#paced });
  }

  readonly #paced: Product['request'] = async (method, path, options) => {
    await delay(this.paceMs);
    if (this.#isStopping) throw new Error('the load has ended');
    return this.#send(method, path, options);
  };

  readonly #send: Product['request'] = async (method, path, options) => {
    const sentAtMs = performance.now();
    const answer = await this.#options.reach.request(method, path, options).catch((error: unknown) => {
      this.unanswered += 1;
      this.lastFailure = messageOf(error instanceof Error ? (error.cause ?? error) : error);
      throw error;
    });
    this.slowestMs = Math.max(this.slowestMs, performance.now() - sentAtMs);
    if (answer.status === 503) this.#checkRefusal(path, answer);
    return answer;
  };

  #checkRefusal(path: string, answer: Answer): void {
    this.refused += 1;
    if (answer.headers.get('retry-after') !== null) return;
    this.ledger.violations.push(`${path} was answered 503 without Retry-After: ${answer.text()}`);
  }

  async #track(project: TestProject): Promise<void> {
    while (!this.#isStopping) {
      await delay(Math.max(this.paceMs, REQUEST_PACE_MS) * REQUESTS_PER_REPORT);
      const body = this.#newReport(project);
      if (body !== undefined) await this.#file(project, body);
    }
  }

  /** Files a report. Retries without a duplicate, because the report has an id. */
  async #file({ projectId, token }: TestProject, body: NewReport): Promise<void> {
    const headers = { Authorization: `Bearer ${token}` };
    while (!this.#isAbandoned) {
      const answer = await this.#send('POST', '/v1/ingest/reports', { body, headers }).catch(() => undefined);
      if (answer?.status === 201 || answer?.status === 200) {
        this.reports.push({ id: body.id, projectId });
        return;
      }
      if (answer !== undefined && answer.status !== 503) {
        this.ledger.violations.push(`a report was answered ${answer.status}: ${answer.text()}`);
        return;
      }
      await delay(REQUEST_PACE_MS);
    }
  }

  #newReport({ projectId }: TestProject): NewReport | undefined {
    const { random } = this.#options;
    const id = randomUUID();
    if (random.chance(0.5)) {
      const sessions = [...this.ledger.sessions].flatMap(([sessionId, session]) =>
        session.projectId === projectId && session.isAcknowledged ? sessionId : [],
      );
      const sessionId = pickOne(random, sessions.slice(-RECENT_SESSIONS));
      return sessionId === undefined ? undefined : { id, sessionId };
    }
    const events = this.ledger.requests
      .slice(-RECENT_REQUESTS)
      .flatMap((request) => request.events)
      .flatMap((event) => (event.projectId === projectId && event.id !== undefined ? event.id : []));
    const two = [pickOne(random, events), pickOne(random, events)];
    const eventIds = [...new Set(two.flatMap((event) => event ?? []))];
    return eventIds.length === 0 ? undefined : { id, eventIds };
  }
}

function pickOne(random: Random, [first, ...others]: readonly string[]): string | undefined {
  return first === undefined ? undefined : random.pick([first, ...others]);
}
