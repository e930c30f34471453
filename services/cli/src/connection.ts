/** Connects commands to a running Questlog. Imports the code for settings only when it is needed, so that `--help` is fast. */

import type { Settings } from '@questlog/questlog/config';
import { Unavailable } from '@questlog/runtime/process/errors';
import { retry } from '@questlog/runtime/process/waiting';
import {
  type BodyOf,
  type Operation,
  type OutputOf,
  type PathParameter,
  routeOf,
} from '@questlog/schemas/http/operations/operation';
import { forTerminal } from './print.ts';

type Games = typeof import('@questlog/schemas/http/operations/games').GAMES;
type Operators = typeof import('@questlog/schemas/http/operations/operators').OPERATORS;

export type GameEndpoint = Endpoint<Games>;
export type AdminEndpoint = Endpoint<Operators>;

export function gameEndpoint(url: string, token: string): GameEndpoint {
  return new Endpoint(
    url,
    token,
    async () => (await import('@questlog/schemas/http/operations/games')).GAMES,
  );
}

export function adminEndpoint(url: string, token: string): AdminEndpoint {
  return new Endpoint(
    url,
    token,
    async () => (await import('@questlog/schemas/http/operations/operators')).OPERATORS,
  );
}

class Endpoint<T extends { readonly [Id in keyof T]: Operation }> {
  readonly url: string;
  readonly #token: string;
  readonly #operations: () => Promise<T>;
  readonly #outage = new Outage();

  constructor(url: string, token: string, operations: () => Promise<T>) {
    this.url = url.replace(/\/+$/, '');
    this.#token = token;
    this.#operations = operations;
  }

  /** Address of the console with the token after `#`. A browser does not send the part after `#` to a server. */
  get signInUrl(): string {
    return `${this.url}/#token=${encodeURIComponent(this.#token)}`;
  }

  /** @throws Rejected with the `detail` of the problem document. @throws Unavailable if a retry can succeed. */
  async request<Id extends keyof T>(id: Id, ...[options = {}]: Options<T[Id]>): Promise<Response> {
    const { [id]: operation } = await this.#operations();
    const { method, path } = requestLine(operation, options);
    const { body, headers, signal } = options;
    const response = await fetch(this.url + path, {
      method,
      headers: {
        Authorization: `Bearer ${this.#token}`,
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      ...(signal !== undefined && { signal }),
    }).catch((cause: unknown) => {
      throw new Unavailable(`Questlog does not answer at ${this.url}; is it running?`, { cause });
    });
    if (response.ok) return response;
    const { message = `answered ${response.status}`, code } = problemOf(await response.text());
    throw TRANSIENT_STATUSES.includes(response.status)
      ? new Unavailable(message)
      : new Rejected(message, code);
  }

  /** Sends a request, and retries for a minute after the first failure. @throws Unavailable if all attempts fail. */
  async retried<Id extends keyof T>(id: Id, ...options: Options<T[Id]>): Promise<Response> {
    let failedMs: number | undefined;
    const [{ signal } = {}] = options;
    const response = await retry(() => this.request(id, ...options), {
      ...(signal !== undefined && { signal }),
      isRetryable: (error) => {
        failedMs ??= performance.now();
        return error instanceof Unavailable && performance.now() - failedMs < MAX_RETRY_MS;
      },
      onDelay: ({ message }) => this.#outage.failed(message),
    });
    this.#outage.ended();
    return response;
  }

  async json<Id extends keyof T>(id: Id, ...options: Options<T[Id]>): Promise<OutputOf<T[Id]>> {
    return JSON.parse(await (await this.request(id, ...options)).text());
  }
}

class Outage {
  #sinceMs: number | undefined;
  #nextMs = 0;

  failed(message: string): void {
    const nowMs = performance.now();
    this.#sinceMs ??= nowMs;
    if (nowMs < this.#nextMs) return;
    this.#nextMs = nowMs + REPORT_INTERVAL_MS;
    process.stderr.write(`${forTerminal(message)}; retrying for up to ${MAX_RETRY_MS / 1000} s\n`);
  }

  ended(): void {
    if (this.#sinceMs === undefined) return;
    const seconds = (performance.now() - this.#sinceMs) / 1000;
    this.#sinceMs = undefined;
    process.stderr.write(`Questlog answers again after ${seconds.toFixed(1)} s\n`);
  }
}

export class Rejected extends Error {
  override readonly name = 'Refused';
  /** Code of the problem document, such as `precondition_failed`. Undefined if the response is not from Questlog. */
  readonly code: string | undefined;

  constructor(message: string, code: string | undefined) {
    super(message);
    this.code = code;
  }
}

interface RequestOptions<O extends Operation> {
  readonly body?: BodyOf<O> | string;
  /** Query parameters. Parameters that are undefined are omitted. */
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** Options of a request. An operation with parameters in its path needs `params`. */
type Options<O extends Operation> = [PathParameter<O['route']>] extends [never]
  ? [options?: RequestOptions<O>]
  : [options: RequestOptions<O> & { readonly params: Readonly<Record<PathParameter<O['route']>, string>> }];

function requestLine(
  operation: Operation,
  { params = {}, query = {} }: { params?: Readonly<Record<string, string>>; query?: object },
): { readonly method: string; readonly path: string } {
  const { method, path } = routeOf(operation);
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ''));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, String(value));
  return { method, path: search.size === 0 ? filled : `${filled}?${search}` };
}

/** The HTTP listeners for operators and for games. A getter throws an `Error` if the address of its listener is unknown. */
export interface Connection {
  readonly admin: AdminEndpoint;
  readonly game: GameEndpoint;
  /** Id of the demo session that `npm start` creates. Undefined if `QUESTLOG_URL` or `QUESTLOG_TOKEN` is set. */
  readonly demoSessionId: string | undefined;
}

/**
 * Reads the addresses and tokens from the settings, or from the credentials file. Never sends a token from the file to an
 * address from the settings.
 */
export async function connect(env: NodeJS.ProcessEnv): Promise<Connection> {
  const { readCredentials } = await import('@questlog/questlog/credentials');
  const config = await settingsOf(env);
  const credentials = readCredentials(await credentialsOf(config));
  const addressFor = (name: string, url: string, token: string, address: Address | undefined): Address => {
    if (url !== '') return { url, token };
    if (address !== undefined) return { url: address.url, token: token === '' ? address.token : token };
    throw new Error(
      `no Questlog has been started with ${config.dataDir} yet; run npm start first, or set ${name} and its token`,
    );
  };
  return {
    get admin() {
      const address = credentials && { url: credentials.adminUrl, token: credentials.adminToken };
      const { url, token } = addressFor('QUESTLOG_ADMIN_URL', config.adminUrl, config.adminToken, address);
      return adminEndpoint(url, token);
    },
    get game() {
      const address = credentials && { url: credentials.baseUrl, token: credentials.token };
      const { url, token } = addressFor('QUESTLOG_URL', config.url, config.token, address);
      return gameEndpoint(url, token);
    },
    demoSessionId: config.url === '' && config.token === '' ? credentials?.sessionId : undefined,
  };
}

export async function settingsOf(env: NodeJS.ProcessEnv): Promise<Settings> {
  const { loadConfig } = await import('@questlog/runtime/process/config');
  const { settings } = await import('@questlog/questlog/config');
  return loadConfig(settings, env, 'QUESTLOG_');
}

export async function credentialsOf(config: Settings): Promise<string> {
  const { credentialsPath, latestCredentialsPath } = await import('@questlog/questlog/credentials');
  const { isOnKafka } = await import('@questlog/questlog/config');
  const latest = isOnKafka(config) ? undefined : latestCredentialsPath(config.dataDir);
  return latest ?? credentialsPath(config.dataDir, isOnKafka(config));
}

interface Address {
  readonly url: string;
  readonly token: string;
}

const MAX_RETRY_MS = 60_000;
const REPORT_INTERVAL_MS = 10_000;
const TRANSIENT_STATUSES = [429, 502, 503, 504];

/** Returns the code and the detail of a problem document (RFC 9457). */
function problemOf(text: string): { message?: string; code?: string | undefined } {
  try {
    const { detail, code, errors = [] }: Problem = JSON.parse(text);
    const more = errors.filter((error) => error.detail !== detail);
    const lines = more.map((error) => `\n  element ${error.index}${error.pointer ?? ''}: ${error.detail}`);
    return detail === undefined ? {} : { message: detail + lines.join(''), code };
  } catch {
    return {};
  }
}

interface Problem {
  readonly detail?: string;
  readonly code?: string;
  readonly errors?: readonly { index: number; pointer?: string; detail: string }[];
}
