/**
 * Starts the product on a new data directory and sends requests to it. The product is one process, or on Kafka one process per
 * service (`cluster.ts`).
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fillWithTables } from '@questlog/runtime/clickhouse/chdb/testing/migratedFolder';
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { keepLogs, noteToken } from '../tokensInLogs.ts';
import { eventually } from './builders.ts';
import {
  type ClusterEngines,
  clusterEngines,
  clusterEnvironment,
  createTables,
  removeDeployment,
} from './cluster.ts';

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
    /** Account that can only read. */
    readonly reader: { readonly username: string; readonly password: string };
  };
}

/** A running product with the functions that its clients use. */
export interface Reached {
  readonly credentials: Credentials;
  /** Sends a request to the public listener. By default, the request has the token of the demo. */
  request(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  /** Sends a request with the admin token to the admin listener. */
  admin(method: string, path: string, body?: unknown): Promise<Answer>;
  /** Runs a query through `/admin/sql` and returns the rows. */
  sql<Row = Record<string, unknown>>(query: string): Promise<Row[]>;
}

export interface Product extends Reached {
  /** Admin address of the process that serves games. Undefined if one process runs all services. */
  readonly ingestAdminUrl: string | undefined;
  readonly dataDir: string;
  /** Id of the process that serves games. */
  readonly pid: number;
  /** Returns the standard output of the process that serves games. */
  stdout(): string;
  /** Returns the standard error of all processes. */
  stderr(): string;
  /** Calls the callback with all earlier output, and then with all new output, of every process. */
  follow(onOutput: (text: string) => void): void;
  /** Sends a signal, by default SIGTERM. Resolves with the first exit code that is not 0, otherwise with 0. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
  /** Sends SIGKILL. Resolves when every process has ended. */
  kill(): Promise<void>;
}

export interface RequestOptions {
  readonly headers?: Record<string, string>;
  /** Body of the request. A Buffer or a string is sent unchanged. Any other value is sent as JSON. */
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
  /** Data directory. The default is a new directory with migrated tables. Use `emptyDataDir()` for an empty directory. */
  readonly dataDir?: string;
  /** Environment variables of the product. A value of undefined removes the variable. */
  readonly env?: Record<string, string | undefined>;
  readonly args?: readonly string[];
  /** Path of the file that starts the product. Undefined for the file of this checkout. */
  readonly entry?: string | undefined;
  /** Flags and environment of Node. By default, `npm start` of this checkout defines them. */
  readonly given?: StartedWith;
  /** Engines that three processes use. By default, the tier of the tests decides. */
  readonly engines?: ClusterEngines | undefined;
}

/** Flags, environment, and entry file of a Node process. */
interface StartedWith {
  readonly env: NodeJS.ProcessEnv;
  readonly flags: readonly string[];
  /** Absolute path of the file that starts the process. */
  readonly entry: string;
}

/** Time limit of a start. It is long, because other test files start products at the same time. */
const READY_WITHIN_MS = 90_000;

export async function startProduct(options: StartOptions = {}): Promise<Product> {
  const engines = options.engines ?? clusterEngines();
  const dataDir = options.dataDir ?? emptyDataDir();
  if (options.dataDir === undefined && engines === undefined) fillWithTables(join(dataDir, 'clickhouse'));
  const { children: services, ingestAdminUrl } = await spawnServices({ ...options, engines, dataDir });
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
    ...reach(credentials, ingestAdminUrl),
    ingestAdminUrl,
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

/** Creates an empty data directory. @param prefix the start of the name of the directory */
export function emptyDataDir(prefix = 'questlog-'): string {
  return mkdtempSync(join(tmpdir(), prefix));
}

/** @param ingestAdminUrl admin address of a separate ingest. A change of the directory is awaited there. */
export function reach(credentials: Credentials, ingestAdminUrl?: string): Reached {
  noteToken(credentials.token, true);
  const admin: Reached['admin'] = async (method, path, body) => {
    const answer = await send(credentials.adminUrl + path, method, credentials.adminToken, { body });
    if (ingestAdminUrl !== undefined && method !== 'GET')
      await hasReadDirectory(ingestAdminUrl, credentials.adminUrl);
    return answer;
  };
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

/** Resolves when a process has read the directory as far as operations has. A change takes effect at every ingest within 2 s. */
export async function hasReadDirectory(adminUrl: string, operationsUrl: string): Promise<void> {
  const offsetOf = async (url: string): Promise<number> => {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    // An ingest of an earlier version lacks the metric.
    return Number(/^questlog_directory_read_offset (\d+)$/m.exec(metrics)?.[1] ?? Number.POSITIVE_INFINITY);
  };
  const target = await offsetOf(operationsUrl);
  await eventually(
    () => offsetOf(adminUrl),
    (offset) => offset >= target,
  );
}

/** Starts the processes. The process that serves games is first in the list. */
async function spawnServices(
  options: StartOptions & { dataDir: string },
): Promise<{ children: ChildProcess[]; ingestAdminUrl: string | undefined }> {
  const engines = options.engines ?? clusterEngines();
  if (engines === undefined) return { children: [spawnProduct(options)], ingestAdminUrl: undefined };
  await createTables(engines, options.dataDir);
  const [port, adminPort, ingestAdminPort] = await freePorts(3);
  const env = {
    ...clusterEnvironment(engines, options.dataDir),
    ...{ QUESTLOG_URL: `http://127.0.0.1:${port}`, QUESTLOG_ADMIN_URL: `http://127.0.0.1:${adminPort}` },
    ...options.env,
  };
  const portsOf: Readonly<Record<string, Record<string, string>>> = {
    ingest: { QUESTLOG_PORT: String(port), QUESTLOG_ADMIN_PORT: String(ingestAdminPort) },
    operations: { QUESTLOG_ADMIN_PORT: String(adminPort) },
  };
  const children = ['ingest', 'operations', 'linker', 'projector'].map((service) =>
    spawnProduct({
      ...options,
      env: { ...portsOf[service], ...env },
      args: [service, ...(options.args ?? [])],
    }),
  );
  return { children, ingestAdminUrl: `http://127.0.0.1:${ingestAdminPort}` };
}

/** Starts a process. Does not wait until it is ready, and does not pass on settings from the environment of the tests. */
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
  // Kills the process if the test process exits first.
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

/** Returns the environment of the tests without settings of the product. */
export function ownEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !SETTING.test(name)));
}

const SETTING = /^(QUESTLOG|KAFKA|SCHEMA_REGISTRY|CLICKHOUSE|OTEL)_/;

/** Removes the data directory, and the data of the deployment in shared engines. */
export async function removeDataDir(
  { dataDir }: { dataDir: string },
  engines = clusterEngines(),
): Promise<void> {
  rmSync(dataDir, { recursive: true, force: true });
  if (engines !== undefined) await removeDeployment(engines, dataDir);
}

/** Returns the log lines that report a bug. Problems of clients and dependencies are not bugs. */
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

/** Resolves when the process prints that it is ready. Rejects if the process ends first or if the time limit is exceeded. */
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

/** Sends a request. @param token the token of the request, or an empty string for a request without a token */
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

/** Sends a signal and returns the exit code. The exit code is null if the signal ended the process. */
export function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode);
  return new Promise((resolve) => {
    child.once('exit', (code) => resolve(code));
    child.kill(signal);
  });
}
