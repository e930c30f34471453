/** A deployment with any number of each service. Each is a process that a test starts and kills. */
import { randomUUID } from 'node:crypto';
import { eventually } from '../e2e/builders.ts';
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
import { type Ended, questlogCommand } from '../e2e/questlogCommand.ts';

export type ServiceName = 'ingest' | 'linker' | 'projector';

export interface Service {
  readonly name: ServiceName;
  readonly pid: number;
  /** The URL for games; empty where there is none. */
  readonly baseUrl: string;
  readonly adminUrl: string;
  /** Not once it was told to stop: a load balancer sends it nothing any more. */
  readonly isUp: boolean;
  stderr(): string;
  request(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  /** Calls the admin listener with its token. */
  admin(method: string, path: string, body?: unknown): Promise<Answer>;
  /** The status of `/readyz`, with its problems and warnings. */
  readyz(): Promise<Readiness>;
  /** A load balancer sends it nothing any more; resolves once what it has sent is answered. */
  leave(): Promise<void>;
  /** Sends SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>;
  /** Sends SIGKILL; resolves once the process is gone. */
  kill(): Promise<void>;
  /** Sends SIGSTOP, until `thaw`: like a migrated machine or a long pause. */
  freeze(): void;
  thaw(): void;
}

export interface Readiness {
  readonly status: number;
  readonly problems: Readonly<Record<string, string>>;
  readonly warnings: Readonly<Record<string, string>>;
}

/** More than the longest that a request may take. */
const ANSWERED_WITHIN_MS = 60_000;
/** Generous: several processes start at once on a busy machine. */
const READY_WITHIN_MS = 120_000;

export class Deployment implements Pick<Product, 'request' | 'sql'> {
  /** The name of its database; with a dot, the prefix of its topics, groups and subjects. */
  readonly name = `cluster_${randomUUID().replaceAll('-', '').slice(0, 12)}`;
  readonly engines: ClusterEngines;
  /** All processes, killed ones too. */
  readonly services: Service[] = [];
  /** The file that starts the next processes; undefined: this checkout's. */
  entry: string | undefined;
  readonly #env: Record<string, string>;
  #turn = 0;

  /** @param env settings that differ from the tests' own. */
  constructor(engines: ClusterEngines, env: Readonly<Record<string, string>> = {}) {
    this.engines = engines;
    this.#env = { ...clusterEnvironment(engines, this.name), QUESTLOG_DEMO: 'off', ...env };
  }

  get prefix(): string {
    return `${this.name}.`;
  }

  /** The command `questlog` as an operator of this deployment types it. */
  questlog(...args: string[]): Promise<Ended> {
    const [{ adminUrl } = { adminUrl: '' }] = this.running('ingest');
    const adminToken = this.#env['QUESTLOG_ADMIN_TOKEN'] ?? '';
    return questlogCommand(args, {
      env: { QUESTLOG_ADMIN_URL: adminUrl, QUESTLOG_ADMIN_TOKEN: adminToken },
    });
  }

  /** Starts a process; resolves when it is ready. @param env settings of this one alone. */
  async start(name: ServiceName, env: Readonly<Record<string, string>> = {}): Promise<Service> {
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
      admin: (method, path, body) =>
        send(adminUrl + path, method, this.#env['QUESTLOG_ADMIN_TOKEN'] ?? '', { body }),
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

  /** When one does not start, the others are ended too: nobody else knows of them. */
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

  /** Sends to each running ingest in turn, like a load balancer. @throws when that one does not answer. */
  request(method: string, path: string, options?: RequestOptions): Promise<Answer> {
    return this.#ingest().request(method, path, options);
  }

  /** The rows of a query to ClickHouse itself. */
  async sql<Row = Record<string, unknown>>(query: string): Promise<Row[]> {
    const text = await this.command(`${query} FORMAT JSON`);
    return (JSON.parse(text) as { data: Row[] }).data;
  }

  /** Runs a statement in ClickHouse itself. @returns the text of the answer. */
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

  /** @returns the exit codes of the running ones. */
  stop(): Promise<(number | null)[]> {
    return Promise.all(this.services.filter(({ isUp }) => isUp).map((service) => service.stop()));
  }

  /** Ends what still runs and removes its topics and database. */
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
