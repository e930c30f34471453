/**
 * Starts the product on a new data directory and talks to it over HTTP: one process, or on Kafka one process per service
 * (`cluster.ts`).
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fillWithTables } from '@questlog/runtime/clickhouse/chdb/testing/migratedFolder';
import { keepLogs, noteToken } from '../tokensInLogs.ts';
import { type ClusterEngines, clusterEngines, clusterEnvironment, removeDeployment } from './cluster.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const ENTRY = join(ROOT, 'services/questlog/src/main.ts');

export interface Credentials {
  readonly baseUrl: string;
  readonly adminUrl: string;
  readonly token: string;
  readonly adminToken: string;
  readonly tenantId: string;
  readonly projectId: string;
  readonly sessionId: string;
  readonly clickhouse: {
    readonly url: string;
    readonly database: string;
    readonly username: string;
    readonly password: string;
    /** Read-only account. */
    readonly reader: { readonly username: string; readonly password: string };
  };
}

/** A running product as its clients see it. */
export interface Reached {
  readonly credentials: Credentials;
  /** Sends a request to the public listener, with the demo token unless the headers contain another one. */
  request(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  /** Sends a request to the admin listener, with the admin token. */
  admin(method: string, path: string, body?: unknown): Promise<Answer>;
  /** Returns the rows of a query through `/admin/sql`. */
  sql<Row = Record<string, unknown>>(query: string): Promise<Row[]>;
}

export interface Product extends Reached {
  readonly dataDir: string;
  /** Id of the process that serves games. */
  readonly pid: number;
  /** Standard output of that process. */
  stdout(): string;
  /** Standard error of all processes. */
  stderr(): string;
  /** Passes all earlier and later output of every process to the callback. */
  follow(onOutput: (text: string) => void): void;
  /** Sends SIGTERM or the given signal; resolves with the exit code, or with the first exit code that is not 0. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
  /** Sends SIGKILL; resolves when every process has ended. */
  kill(): Promise<void>;
}

export interface RequestOptions {
  readonly headers?: Record<string, string>;
  /** Sends a Buffer or a string unchanged, anything else as JSON. */
  readonly body?: unknown;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Buffer;
  text(): string;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads responses of any shape.
  json(): any;
}

export interface StartOptions {
  /** Data directory. By default a new one with migrated tables; `emptyDataDir()` returns an empty one. */
  readonly dataDir?: string;
  /** A value of undefined removes the variable. */
  readonly env?: Record<string, string | undefined>;
  readonly args?: readonly string[];
  /** File that starts the product. Undefined for this checkout's file. */
  readonly entry?: string | undefined;
  /** Flags and environment of Node. Undefined for this checkout's `npm start`. */
  readonly given?: StartedWith;
  /** Engines for three processes. Undefined for the default of the tier. */
  readonly engines?: ClusterEngines | undefined;
}

/** Flags, environment, and entry file of a Node process. */
interface StartedWith {
  readonly env: NodeJS.ProcessEnv;
  readonly flags: readonly string[];
  /** Absolute path of the file that starts the processes. */
  readonly entry: string;
}

/** Time limit of a start, because other test files start and break stacks at the same time. */
const READY_WITHIN_MS = 90_000;

export async function startProduct(options: StartOptions = {}): Promise<Product> {
  const engines = options.engines ?? clusterEngines();
  const dataDir = options.dataDir ?? emptyDataDir();
  if (options.dataDir === undefined && engines === undefined) fillWithTables(join(dataDir, 'clickhouse'));
  const services = spawnServices({ ...options, engines, dataDir });
  const outputs = services.map(collectOutput);
  await Promise.all(services.map((child, index) => ready(child, outputs[index], READY_WITHIN_MS))).catch(
    async (error: unknown) => {
      await Promise.all(services.map((child) => end(child, 'SIGKILL')));
      throw error;
    },
  );
  const [toGames] = services;
  const credentials: Credentials = JSON.parse(readFileSync(join(dataDir, 'dev-credentials.json'), 'utf8'));
  const endAll = async (signal: NodeJS.Signals): Promise<number | null> => {
    const codes = await Promise.all(services.map((child) => end(child, signal)));
    return codes.find((code) => code !== 0) ?? codes[0] ?? null;
  };
  return {
    ...reach(credentials),
    dataDir,
    pid: toGames?.pid ?? 0,
    stdout: () => outputs[0]?.stdout ?? '',
    stderr: () => outputs.map(({ stderr }) => stderr).join(''),
    follow: (onOutput) => {
      for (const [index, child] of services.entries()) {
        const { stdout = '', stderr = '' } = outputs[index] ?? {};
        onOutput(stdout + stderr);
        for (const pipe of [child.stdout, child.stderr]) pipe?.on('data', (chunk) => onOutput(String(chunk)));
      }
    },
    stop: (signal = 'SIGTERM') => endAll(signal),
    kill: async () => void (await endAll('SIGKILL')),
  };
}

/** @param prefix start of the folder's name */
export function emptyDataDir(prefix = 'questlog-'): string {
  return mkdtempSync(join(tmpdir(), prefix));
}

export function reach(credentials: Credentials): Reached {
  noteToken(credentials.token, true);
  const admin: Reached['admin'] = (method, path, body) =>
    send(credentials.adminUrl + path, method, credentials.adminToken, { body });
  return {
    credentials,
    request: (method, path, request) => send(credentials.baseUrl + path, method, credentials.token, request),
    admin,
    sql: async (query) => {
      const answer = await admin('POST', '/admin/sql', { query });
      if (answer.status !== 200) throw new Error(`${query}: ${answer.text()}`);
      return answer.json().data;
    },
  };
}

/** Starts the services; the process that serves games is first. */
function spawnServices(options: StartOptions & { dataDir: string }): ChildProcess[] {
  const engines = options.engines ?? clusterEngines();
  if (engines === undefined) return [spawnProduct(options)];
  const env = { ...clusterEnvironment(engines, options.dataDir), ...options.env };
  return ['ingest', 'linker', 'projector'].map((service) =>
    spawnProduct({ ...options, env, args: [service, ...(options.args ?? [])] }),
  );
}

/** Starts the process without waiting, and without the tests' own settings. */
export function spawnProduct({ dataDir, env, args = [], ...options }: StartOptions): ChildProcess {
  const { entry = ENTRY, given = startedWith(ROOT) } = options;
  const child = spawn(process.execPath, [...given.flags, entry, ...args], {
    env: {
      ...ownEnvironment(),
      ...given.env,
      QUESTLOG_PORT: '0',
      QUESTLOG_ADMIN_PORT: '0',
      ...(dataDir === undefined ? {} : { QUESTLOG_DATA_DIR: dataDir }),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  keepLogs(child, args[0] ?? 'standalone');
  // Kills the processes of a failed test at exit.
  const killAtExit = (): void => void child.kill('SIGKILL');
  process.once('exit', killAtExit);
  child.once('exit', () => process.off('exit', killAtExit));
  return child;
}

/** Returns the environment, the flags, and the entry file that `npm start` of a checkout passes to Node. */
export function startedWith(root: string): StartedWith {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const start: string = scripts.start;
  const env = Array.from(start.matchAll(/(?<=^| )(?<name>[A-Z]\w*)=(?<value>\S+)/g), ({ groups = {} }) => [
    groups['name'],
    groups['value'],
  ]);
  const entry = join(root, /services\/\S+\/main\.ts/.exec(start)?.[0] ?? '');
  return { env: Object.fromEntries(env), flags: start.match(/(?<= )--\S+/g) ?? [], entry };
}

/** Returns the environment without settings of the product. */
export function ownEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !SETTING.test(name)));
}

const SETTING = /^(QUESTLOG|KAFKA|SCHEMA_REGISTRY|CLICKHOUSE)_/;

/** Removes the directory and the deployment's data in shared engines. */
export async function removeDataDir(
  { dataDir }: { dataDir: string },
  engines = clusterEngines(),
): Promise<void> {
  rmSync(dataDir, { recursive: true, force: true });
  if (engines !== undefined) await removeDeployment(engines, dataDir);
}

/** Returns the log lines that report a bug, not a problem of a client or a dependency. */
export function bugsIn(stderr: string): string[] {
  return stderr.split('\n').filter((line) => line.includes('"bug":true'));
}

export interface Output {
  stdout: string;
  stderr: string;
}

export function collectOutput(child: ChildProcess): Output {
  const output = { stdout: '', stderr: '' };
  child.stdout?.on('data', (chunk: Buffer) => {
    output.stdout += chunk.toString();
  });
  child.stderr?.on('data', (chunk: Buffer) => {
    output.stderr += chunk.toString();
  });
  return output;
}

/** Resolves when the process prints that it is ready. Rejects if the process ends before that or exceeds the time limit. */
export function ready(
  child: ChildProcess,
  output: Output = { stdout: '', stderr: '' },
  withinMs: number,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new Error(`not ready within ${withinMs} ms: ${output.stdout}${output.stderr}`));
    }, withinMs);
    const settle = (outcome: () => void): void => {
      clearTimeout(timer);
      outcome();
    };
    child.stdout?.on('data', () => {
      if (output.stdout.includes(' is ready (')) settle(resolve);
    });
    child.once('exit', (code) => settle(() => reject(new Error(`exited with ${code}: ${output.stderr}`))));
  });
}

/** @param token token of the request; empty for none */
export async function send(
  url: string,
  method: string,
  token: string,
  options: RequestOptions = {},
): Promise<Answer> {
  const { body } = options;
  const isRaw = typeof body === 'string' || Buffer.isBuffer(body);
  const raw = body === undefined ? undefined : isRaw ? body : JSON.stringify(body);
  const headers: Record<string, string> = {
    ...(token === '' ? {} : { Authorization: `Bearer ${token}` }),
    ...(raw === undefined ? {} : { 'Content-Type': 'application/json' }),
    ...options.headers,
  };
  noteToken(headers['Authorization']?.slice('Bearer '.length) ?? '');
  const response = await fetch(url, {
    method,
    headers,
    ...(raw === undefined ? {} : { body: typeof raw === 'string' ? raw : new Uint8Array(raw) }),
  });
  const bytes = Buffer.from(await response.arrayBuffer());
  if (url.includes('/admin/tokens')) noteTokensOf(bytes.toString());
  return {
    status: response.status,
    headers: response.headers,
    bytes,
    text: () => bytes.toString('utf8'),
    json: () => JSON.parse(bytes.toString('utf8')),
  };
}

function noteTokensOf(answer: string): void {
  for (const [, token = ''] of answer.matchAll(/"token":"([^"]+)"/g)) noteToken(token);
}

/** Returns the exit code; null after a signal. */
export function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode);
  return new Promise((resolve) => {
    child.once('exit', (code) => resolve(code));
    child.kill(signal);
  });
}
