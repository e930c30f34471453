/** Connects commands to a running Questlog. Imports the code for settings only when it is needed, so that `--help` is fast. */

import type { Settings } from '@questlog/questlog/config';
import { Unavailable } from '@questlog/runtime/process/errors';
import { retryUntilAvailable } from '@questlog/runtime/process/waiting';
import { forTerminal } from './print.ts';

export class Endpoint {
  readonly url: string;
  readonly #token: string;
  readonly #outage = new Outage();

  constructor(url: string, token: string) {
    this.url = url.replace(/\/+$/, '');
    this.#token = token;
  }

  /** Address of the console with the token after `#`. A browser does not send the part after `#` to a server. */
  get signInUrl(): string {
    return `${this.url}/#token=${encodeURIComponent(this.#token)}`;
  }

  /** @throws Rejected with the `detail` of the problem document. @throws Unavailable if a retry can succeed. */
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

  /** Sends a request, and retries for a minute after the first failure. @throws Unavailable if all attempts fail. */
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

  async json(method: string, path: string, options?: RequestOptions) {
    return JSON.parse(await (await this.request(method, path, options)).text());
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

export interface RequestOptions {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** The HTTP listeners for operators and for games. A getter throws an `Error` if the address of its listener is unknown. */
export interface Connection {
  readonly admin: Endpoint;
  readonly game: Endpoint;
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
  const endpointFor = (name: string, url: string, token: string, address: Address | undefined): Endpoint => {
    if (url !== '') return new Endpoint(url, token);
    if (address !== undefined) return new Endpoint(address.url, token === '' ? address.token : token);
    throw new Error(
      `no Questlog has been started with ${config.dataDir} yet; run npm start first, or set ${name} and its token`,
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
