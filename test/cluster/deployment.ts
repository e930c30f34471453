/** A deployment with any number of processes of each service. Tests start and kill the processes. */
import { randomUUID } from 'node:crypto';
import { eventually } from '../e2e/builders.ts';
import {
  type ClusterEngines,
  clickhouseNodes,
  clusterEnvironment,
  createTables,
  removeDeployment,
} from '../e2e/cluster.ts';
import {
  type Answer,
  collectOutput,
  end,
  hasReadDirectory,
  type Product,
  type RequestOptions,
  ready,
  send,
  spawnProduct,
} from '../e2e/product.ts';
import { type Ended, questlogCommand } from '../e2e/questlogCommand.ts';

export type ServiceName = 'ingest' | 'operations' | 'linker' | 'projector';

export interface Service {
  readonly name: ServiceName;
  readonly pid: number;
  /** Address of the listener for games. Empty if the service has no such listener. */
  readonly baseUrl: string;
  readonly adminUrl: string;
  /** False after the test starts to stop the service. A load balancer sends no requests to such a service. */
  readonly isUp: boolean;
  stderr(): string;
  request(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  /** Sends a request with the admin token to operations, or to an ingest of a version whose ingest serves operators. */
  admin(method: string, path: string, body?: unknown): Promise<Answer>;
  /** Returns the status, the problems, and the warnings of `/readyz`. */
  readyz(): Promise<Readiness>;
  /** Removes the service from the load balancer. Resolves when all its requests have a response. */
  leave(): Promise<void>;
  /** Sends SIGTERM. Resolves with the exit code. */
  stop(): Promise<number | null>;
  /** Sends SIGKILL. Resolves when the process has exited. */
  kill(): Promise<void>;
  /** Suspends the process until `thaw`. Simulates the migration of a machine or a long pause. */
  freeze(): void;
  thaw(): void;
}

export interface Readiness {
  readonly status: number;
  readonly problems: Readonly<Record<string, string>>;
  readonly warnings: Readonly<Record<string, string>>;
}

/** Node of ClickHouse that a test uses without Questlog. */
export interface ClickHouseNode extends Pick<Deployment, 'sql' | 'command'> {
  readonly url: string;
}

/** Time limit for the requests of a service. No request takes longer. */
const ANSWERED_WITHIN_MS = 60_000;
/** Time limit of a start. It is long, because several processes start at the same time on a busy machine. */
const READY_WITHIN_MS = 120_000;

export class Deployment implements Pick<Product, 'request' | 'sql'> {
  /** Name of the database. With a dot, the name is also the prefix of the topics, groups, and subjects. */
  readonly name = `cluster_${randomUUID().replaceAll('-', '').slice(0, 12)}`;
  readonly engines: ClusterEngines;
  /** All processes that were started, including killed processes. */
  readonly services: Service[] = [];
  /** Path of the file that starts the next processes. Undefined if the next processes run the code of this checkout. */
  entry: string | undefined;
  readonly #env: Record<string, string>;
  #tables: Promise<void> | undefined;
  #turn = 0;

  /** @param env settings that replace the default settings of the tests. */
  constructor(engines: ClusterEngines, env: Readonly<Record<string, string>> = {}) {
    this.engines = engines;
    this.#env = { ...clusterEnvironment(engines, this.name), QUESTLOG_DEMO: 'off', ...env };
  }

  get prefix(): string {
    return `${this.name}.`;
  }

  /** Settings of the processes of this deployment. */
  get settings(): Readonly<Record<string, string>> {
    return this.#env;
  }

  /** Runs the command `questlog` against this deployment. */
  questlog(...args: string[]): Promise<Ended> {
    const adminUrl = this.#operationsUrl(this.running('ingest')[0]?.adminUrl ?? '');
    const adminToken = this.#env['QUESTLOG_ADMIN_TOKEN'] ?? '';
    return questlogCommand(args, {
      env: { QUESTLOG_ADMIN_URL: adminUrl, QUESTLOG_ADMIN_TOKEN: adminToken },
    });
  }

  /** Starts a process and waits until the process is ready. @param env additional settings of the process. */
  async start(name: ServiceName, env: Readonly<Record<string, string>> = {}): Promise<Service> {
    // A process of another version creates the tables of its version.
    if (this.entry === undefined) this.#tables ??= createTables(this.engines, this.name);
    await this.#tables;
    const child = spawnProduct({ env: { ...this.#env, ...env }, args: [name], entry: this.entry });
    const output = collectOutput(child);
    await ready(child, output, READY_WITHIN_MS);
    const urlOf = (what: string): string =>
      new RegExp(`^ +${what} +(\\S+)$`, 'm').exec(output.stdout)?.[1] ?? '';
    const [baseUrl, adminUrl] = [urlOf('games'), urlOf('operators')];
    let isStopping = false;
    let underWay = 0;
    const service: Service = {
      name,
      pid: child.pid ?? 0,
      baseUrl,
      adminUrl,
      get isUp() {
        return !isStopping && child.exitCode === null && child.signalCode === null;
      },
      stderr: () => output.stderr,
      request: async (method, path, options) => {
        underWay += 1;
        return send(baseUrl + path, method, '', options).finally(() => {
          underWay -= 1;
        });
      },
      admin: async (method, path, body) => {
        const isForOperations = path.startsWith('/admin') && name !== 'operations';
        const url = isForOperations ? this.#operationsUrl(adminUrl) : adminUrl;
        const answer = await send(url + path, method, this.#env['QUESTLOG_ADMIN_TOKEN'] ?? '', { body });
        if (method !== 'GET' && url !== adminUrl && name === 'ingest') await hasReadDirectory(adminUrl, url);
        return answer;
      },
      readyz: async () => {
        const answer = await fetch(`${adminUrl}/readyz`);
        const { problems = {}, warnings = {} } = (await answer.json()) as Partial<Readiness>;
        return { status: answer.status, problems, warnings };
      },
      leave: async () => {
        isStopping = true;
        await eventually(
          async () => underWay,
          (requests) => requests === 0,
          ANSWERED_WITHIN_MS,
        );
      },
      stop: () => {
        isStopping = true;
        return end(child, 'SIGTERM');
      },
      kill: async () => void (await end(child, 'SIGKILL')),
      freeze: () => void child.kill('SIGSTOP'),
      thaw: () => void child.kill('SIGCONT'),
    };
    this.services.push(service);
    return service;
  }

  /** Starts several processes. If a process fails to start, kills all of them. */
  async startAll(...names: ServiceName[]): Promise<Service[]> {
    const started = names.map((name) => this.start(name));
    try {
      return await Promise.all(started);
    } catch (error) {
      await Promise.allSettled(started);
      await Promise.all(this.services.map((service) => service.kill()));
      throw error;
    }
  }

  running(name: ServiceName): Service[] {
    return this.services.filter((service) => service.name === name && service.isUp);
  }

  /** Sends a request to the next running ingest, as a load balancer does. @throws Error if the ingest does not respond. */
  request(method: string, path: string, options?: RequestOptions): Promise<Answer> {
    return this.#ingest().request(method, path, options);
  }

  /** Returns the nodes of ClickHouse. A single server is one node. */
  clickhouseNodes(): ClickHouseNode[] {
    return clickhouseNodes(this.engines).map((url) => ({
      url: new URL(url).origin,
      sql: (query) => this.sql(query, url),
      command: (statement) => this.command(statement, url),
    }));
  }

  /** Runs a query in ClickHouse without Questlog, and returns the rows. @param url the node, by default the first node. */
  async sql<Row = Record<string, unknown>>(query: string, url?: string): Promise<Row[]> {
    const text = await this.command(`${query} FORMAT JSON`, url);
    return (JSON.parse(text) as { data: Row[] }).data;
  }

  /** Runs a statement in ClickHouse without Questlog, and returns the response as text. */
  async command(statement: string, node = clickhouseNodes(this.engines)[0] ?? ''): Promise<string> {
    const { origin, username, password } = new URL(node);
    const basic = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`);
    const headers = { Authorization: `Basic ${basic.toString('base64')}` };
    const url = `${origin}/?database=${this.name}`;
    const response = await fetch(url, { method: 'POST', headers, body: statement });
    const text = await response.text();
    if (!response.ok) throw new Error(`${statement}: ${text}`);
    return text;
  }

  /** Stops the running processes. Returns their exit codes. */
  stop(): Promise<(number | null)[]> {
    return Promise.all(this.services.filter(({ isUp }) => isUp).map((service) => service.stop()));
  }

  /** Kills all processes. Then removes the topics and the database. */
  async remove(): Promise<void> {
    await Promise.all(this.services.map((service) => service.kill()));
    await removeDeployment(this.engines, this.name);
  }

  #operationsUrl(otherwise: string): string {
    return this.running('operations')[0]?.adminUrl ?? otherwise;
  }

  #ingest(): Service {
    const up = this.running('ingest');
    const next = up[this.#turn++ % up.length];
    if (next === undefined) throw new Error('no ingest is running');
    return next;
  }
}
