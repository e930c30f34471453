/** A deployment of any number of each service, every one a process that a test starts and kills by itself. */
import { randomUUID } from 'node:crypto';
import { type ClusterEngines, clusterEnvironment, removeDeployment } from '../e2e/cluster.ts';
import {
  type Answer,
  collectOutput,
  end,
  type Product,
  type RequestOptions,
  ready,
  send,
  spawnProduct,
} from '../e2e/product.ts';

export type ServiceName = 'ingest' | 'linker' | 'projector';

export interface Service {
  readonly name: ServiceName;
  /** Of the listener for games; empty where there is none. */
  readonly baseUrl: string;
  readonly adminUrl: string;
  /** By `performance.now()`. */
  readonly startedAtMs: number;
  readonly readyAtMs: number;
  readonly isUp: boolean;
  stderr(): string;
  request(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  /** With the operators' token. */
  admin(method: string, path: string, body?: unknown): Promise<Answer>;
  /** The status of `/readyz`, and the sentences of what is not ready. */
  readyz(): Promise<{ status: number; problems: Readonly<Record<string, string>> }>;
  /** SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>;
  /** SIGKILL; resolves once it is gone. */
  kill(): Promise<void>;
  /** SIGSTOP, until `thaw`: as a machine that is moved, or a long pause of its own. */
  freeze(): void;
  thaw(): void;
}

/** Several processes start at once, beside whatever else the machine does. */
const READY_WITHIN_MS = 120_000;

export class Deployment implements Pick<Product, 'request' | 'sql'> {
  /** Of its database; with a dot behind it the prefix of its topics, groups and subjects. */
  readonly name = `cluster_${randomUUID().replaceAll('-', '').slice(0, 12)}`;
  readonly engines: ClusterEngines;
  /** Those that were killed, too. */
  readonly services: Service[] = [];
  readonly #env: Record<string, string>;
  #turn = 0;

  /** @param env settings that differ from those of the tests. */
  constructor(engines: ClusterEngines, env: Readonly<Record<string, string>> = {}) {
    this.engines = engines;
    this.#env = { ...clusterEnvironment(engines, this.name), QUESTLOG_DEMO: 'off', ...env };
  }

  get prefix(): string {
    return `${this.name}.`;
  }

  /** Resolves when it is ready. */
  async start(name: ServiceName): Promise<Service> {
    const startedAtMs = performance.now();
    const child = spawnProduct({ env: this.#env, args: [name] });
    const output = collectOutput(child);
    await ready(child, output, READY_WITHIN_MS);
    const urlOf = (what: string): string =>
      new RegExp(`^ +${what} +(\\S+)$`, 'm').exec(output.stdout)?.[1] ?? '';
    const [baseUrl, adminUrl] = [urlOf('games'), urlOf('operators')];
    const service: Service = {
      name,
      baseUrl,
      adminUrl,
      startedAtMs,
      readyAtMs: performance.now(),
      get isUp() {
        return child.exitCode === null && child.signalCode === null;
      },
      stderr: () => output.stderr,
      request: (method, path, options) => send(baseUrl + path, method, '', options),
      admin: (method, path, body) =>
        send(adminUrl + path, method, this.#env['QUESTLOG_ADMIN_TOKEN'] ?? '', { body }),
      readyz: async () => {
        const answer = await fetch(`${adminUrl}/readyz`);
        const { problems = {} } = (await answer.json()) as { problems?: Record<string, string> };
        return { status: answer.status, problems };
      },
      stop: () => end(child, 'SIGTERM'),
      kill: async () => void (await end(child, 'SIGKILL')),
      freeze: () => void child.kill('SIGSTOP'),
      thaw: () => void child.kill('SIGCONT'),
    };
    this.services.push(service);
    return service;
  }

  startAll(...names: ServiceName[]): Promise<Service[]> {
    return Promise.all(names.map((name) => this.start(name)));
  }

  running(name: ServiceName): Service[] {
    return this.services.filter((service) => service.name === name && service.isUp);
  }

  /** To each running ingest in turn, as a load balancer does. @throws where that one does not answer. */
  request(method: string, path: string, options?: RequestOptions): Promise<Answer> {
    return this.#ingest().request(method, path, options);
  }

  /** Rows of a question to ClickHouse itself. */
  async sql<Row = Record<string, unknown>>(query: string): Promise<Row[]> {
    const text = await this.command(`${query} FORMAT JSON`);
    return (JSON.parse(text) as { data: Row[] }).data;
  }

  /** A statement to ClickHouse itself. @returns the text of the answer. */
  async command(statement: string): Promise<string> {
    const { origin, username, password } = new URL(this.engines.clickhouseUrl);
    const basic = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`);
    const headers = { Authorization: `Basic ${basic.toString('base64')}` };
    const url = `${origin}/?database=${this.name}`;
    const response = await fetch(url, { method: 'POST', headers, body: statement });
    const text = await response.text();
    if (!response.ok) throw new Error(`${statement}: ${text}`);
    return text;
  }

  /** @returns the exit codes of those that ran. */
  stop(): Promise<(number | null)[]> {
    return Promise.all(this.services.filter(({ isUp }) => isUp).map((service) => service.stop()));
  }

  /** Ends what still runs and takes away all that it has on the engines. */
  async remove(): Promise<void> {
    await Promise.all(this.services.map((service) => service.kill()));
    await removeDeployment(this.engines, this.name);
  }

  #ingest(): Service {
    const up = this.running('ingest');
    const next = up[this.#turn++ % up.length];
    if (next === undefined) throw new Error('no ingest is running');
    return next;
  }
}
