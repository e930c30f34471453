/** Creates steady load on a deployment. Clients send events to all ingests and file reports about these events. */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '@questlog/runtime/process/errors';
import type { TestProject } from '../e2e/builders.ts';
import type { Answer, Product } from '../e2e/product.ts';
import { type ClientOptions, KillClient } from '../faults/killClient.ts';
import { SentLedger, sha256Of } from '../faults/ledger.ts';
import { type Random, seeded } from '../faults/seeded.ts';

export interface LoadOptions extends Pick<ClientOptions, 'repeatsLenient'> {
  readonly projects: readonly TestProject[];
  readonly reach: Pick<Product, 'request'>;
  readonly random: Random;
  /** Difference between the clocks of the games and the correct time, in milliseconds. */
  readonly shiftMs: number;
}

/** A report that Questlog has accepted. */
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
/**
 * Pause between the requests of a client in milliseconds. The pause leaves CPU time for the services, the brokers, and often
 * another test.
 */
const REQUEST_PACE_MS = 1_000;
/** Number of requests per client between two reports of a project. A higher number gives more links per report. */
const REQUESTS_PER_REPORT = 6;
const PEAK_MS = 3_000;
/** Number of recent requests from which a report selects events. Other reports select one of the recent sessions. */
const RECENT_REQUESTS = 40;
const RECENT_SESSIONS = 6;

export class Load {
  readonly ledger = new SentLedger();
  readonly reports: FiledReport[] = [];
  /** Number of 503 responses. `unanswered` is the number of requests without a response. */
  refused = 0;
  unanswered = 0;
  /** Error message of the last request that got no response. */
  lastFailure = '';
  /** Duration of the slowest request that got a response, in milliseconds. */
  slowestMs = 0;
  /** Pause between two requests of a client in milliseconds. */
  paceMs = REQUEST_PACE_MS;
  readonly #options: LoadOptions;
  #random: Random;
  #clients: readonly KillClient[];
  /** Number of times that the load got new clients. The payloads contain this number, because each payload must be unique. */
  #renewals = 0;
  #running: Promise<unknown> | undefined;
  #probes = 0;
  #ended = new AbortController();
  #isAbandoned = false;

  constructor(options: LoadOptions) {
    this.#options = options;
    this.#random = options.random;
    this.#clients = this.#newClients();
  }

  /** Replaces the clients. The load must be stopped before this call. */
  renew(random: Random): void {
    this.#random = random;
    this.#renewals += 1;
    this.#clients = this.#newClients();
  }

  /** Starts the load. After `stop`, the load can be started again. */
  start(): void {
    this.#ended = new AbortController();
    this.#running = Promise.all([
      ...this.#clients.map((client) => this.#play(client)),
      ...this.#options.projects.map((project) => this.#track(project)),
    ]);
  }

  /** Ends the load. Does not wait for open requests, because no running ingest remains. */
  abandon(): void {
    this.#ended.abort();
    this.#isAbandoned = true;
  }

  /**
   * Sends requests at the maximum rate for a while, then reduces the rate to about half. @returns the maximum number of requests
   * per second.
   */
  async halfOfPeak(): Promise<number> {
    this.paceMs = 0;
    const before = this.ledger.requests.length;
    await delay(PEAK_MS);
    const perSecond = (this.ledger.requests.length - before) / (PEAK_MS / 1_000);
    // The pause equals the average response time while all clients send at the same time.
    this.paceMs = (this.#clients.length * 1_000) / Math.max(1, perSecond);
    return perSecond;
  }

  /** Stops the load. Resolves when every open request has a response. */
  async stop(): Promise<void> {
    this.#ended.abort();
    await this.#running;
    await Promise.all(this.#clients.map((client) => client.finish({ request: this.#send })));
  }

  /** Sends one event of the first session of a project. The ingest `at` receives the event. By default, any ingest receives it. */
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

  #newClients(): readonly KillClient[] {
    return this.#options.projects.flatMap((project, number) => this.#clientsOf(project, number));
  }

  #clientsOf({ tenantId, projectId, token }: TestProject, number: number): KillClient[] {
    return Array.from({ length: CLIENTS_PER_PROJECT }, (_, i) => {
      const random = seeded(this.#random.between(0, 2 ** 31));
      const name = `${this.#renewals}-${number}-${i}`;
      const [mayOmitSession, maxBatch] = [number > 0, MAX_BATCH];
      const { shiftMs, repeatsLenient = true } = this.#options;
      const of = {
        name,
        tenantId,
        projectId,
        token,
        mayOmitSession,
        maxBatch,
        shiftMs,
        repeatsLenient,
        random,
      };
      return new KillClient({ ...of, ledger: this.ledger });
    });
  }

  async #play(client: KillClient): Promise<void> {
    // A client ends its session after a request without a response, and uses another ingest for the next session.
    while (!this.#ended.signal.aborted) await client.play({ request: this.#paced });
  }

  readonly #paced: Product['request'] = async (method, path, options) => {
    // Rejects if the load ends during the pause.
    await delay(this.paceMs, undefined, { signal: this.#ended.signal });
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
    const { signal } = this.#ended;
    for (;;) {
      await delay(Math.max(this.paceMs, REQUEST_PACE_MS) * REQUESTS_PER_REPORT, undefined, { signal }).catch(
        () => undefined,
      );
      if (signal.aborted) return;
      const body = this.#newReport(project);
      if (body !== undefined) await this.#file(project, body);
    }
  }

  /** Files a report. A retry creates no duplicate, because the report has an id. */
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
    const random = this.#random;
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
