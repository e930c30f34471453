/**
 * How a command reaches a running Questlog, and how an answer that is no success becomes one sentence. What reads settings
 * is loaded by the call: the commands import this file, and `--help` is to come at once.
 */

import type { Settings } from '@questlog/questlog/config';
import { Unavailable } from '@questlog/runtime/process/errors';
import { retryUntilAvailable } from '@questlog/runtime/process/waiting';
import { forTerminal } from './print.ts';

/** A listener. */
export class Endpoint {
  readonly url: string;
  readonly #token: string;
  readonly #outage = new Outage();

  constructor(url: string, token: string) {
    this.url = url.replace(/\/+$/, '');
    this.#token = token;
  }

  /** A browser keeps what stands behind the `#` to itself. */
  get signInUrl(): string {
    return `${this.url}/#token=${encodeURIComponent(this.#token)}`;
  }

  /** @throws Refused with the problem's own words; Unavailable where another try may help. */
  async request(
    method: string,
    path: string,
    { body, headers, signal }: RequestOptions = {},
  ): Promise<Response> {
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

  /**
   * Sends a request that is safe to retry.
   * @throws Unavailable if no attempt succeeds within a minute after the first failure.
   */
  async retried(method: string, path: string, options: RequestOptions): Promise<Response> {
    const limit = new AbortController();
    let failedMs: number | undefined;
    const response = await retryUntilAvailable(() => this.request(method, path, options), {
      signal: limit.signal,
      onDelay: ({ message }) => {
        failedMs ??= performance.now();
        if (performance.now() - failedMs >= MAX_RETRY_MS) limit.abort();
        else this.#outage.failed(message);
      },
    });
    this.#outage.ended();
    return response;
  }

  /** The answer's body; whoever asks says its type. */
  async json(method: string, path: string, options?: RequestOptions) {
    return JSON.parse(await (await this.request(method, path, options)).text());
  }
}

/** Reports an outage on standard error once per interval, however many requests fail at the same time. */
class Outage {
  #sinceMs: number | undefined;
  #nextMs = 0;

  failed(message: string): void {
    const nowMs = performance.now();
    this.#sinceMs ??= nowMs;
    if (nowMs < this.#nextMs) return;
    this.#nextMs = nowMs + REPORT_INTERVAL_MS;
    process.stderr.write(`${forTerminal(message)}; trying again for up to ${MAX_RETRY_MS / 1000} s\n`);
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
  /** Of the closed list of problems; undefined where something else than Questlog answered. */
  readonly code: string | undefined;

  constructor(message: string, code: string | undefined) {
    super(message);
    this.code = code;
  }
}

export interface RequestOptions {
  /** Sent as JSON; a string as it is. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** @throws Error where a listener is asked for that no setting and no start of this machine names. */
export interface Connection {
  /** The listener of operators. */
  readonly admin: Endpoint;
  /** The listener of games. */
  readonly game: Endpoint;
  /** The demo's session, where this machine started the Questlog that `game` leads to. */
  readonly demoSessionId: string | undefined;
}

/**
 * The kept tokens go to the kept addresses only: an address in the environment needs its token there too.
 * @throws StartRefused for a bad setting.
 */
export async function connect(env: NodeJS.ProcessEnv): Promise<Connection> {
  const { readCredentials } = await import('@questlog/questlog/credentials');
  const config = await settingsOf(env);
  const credentials = readCredentials(await credentialsOf(config));
  const endpointFor = (name: string, url: string, token: string, address: Address | undefined): Endpoint => {
    if (url !== '') return new Endpoint(url, token);
    if (address !== undefined) return new Endpoint(address.url, token === '' ? address.token : token);
    throw new Error(
      `nothing has been started on ${config.dataDir} yet; run npm start first, or set ${name} and its token`,
    );
  };
  return {
    get admin() {
      const address = credentials && { url: credentials.adminUrl, token: credentials.adminToken };
      return endpointFor('QUESTLOG_ADMIN_URL', config.adminUrl, config.adminToken, address);
    },
    get game() {
      const address = credentials && { url: credentials.baseUrl, token: credentials.token };
      return endpointFor('QUESTLOG_URL', config.url, config.token, address);
    },
    demoSessionId: config.url === '' && config.token === '' ? credentials?.sessionId : undefined,
  };
}

/** @throws StartRefused naming every bad setting. */
export async function settingsOf(env: NodeJS.ProcessEnv): Promise<Settings> {
  const { loadConfig } = await import('@questlog/runtime/process/config');
  const { settings } = await import('@questlog/questlog/config');
  return loadConfig(settings, env, 'QUESTLOG_');
}

/**
 * Returns the path of the credentials of the Kafka deployment if the settings name Kafka, otherwise of the deployment
 * that was started last.
 */
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

/** Long enough for a restart of Questlog. */
const MAX_RETRY_MS = 60_000;
const REPORT_INTERVAL_MS = 10_000;
const TRANSIENT_STATUSES = [429, 502, 503, 504];

/** The detail of a problem document (RFC 9457), and on a line each of its errors that says more. */
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
