/** The product as a user has it: a process started on a data directory of its own, spoken to over HTTP. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ENTRY = fileURLToPath(new URL('../../services/standalone/src/main.ts', import.meta.url));

export interface Credentials {
  readonly baseUrl: string;
  readonly adminUrl: string;
  readonly token: string;
  readonly adminToken: string;
  readonly tenantId: string;
  readonly projectId: string;
  readonly sessionId: string;
}

export interface Product {
  readonly credentials: Credentials;
  readonly dataDir: string;
  readonly pid: number;
  stdout(): string;
  stderr(): string;
  /** A request to the public listener, with the demo token unless the headers say otherwise. */
  request(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  /** A request to the admin listener, with the admin token. */
  admin(method: string, path: string, body?: unknown): Promise<Answer>;
  /** Rows of a question through `/admin/sql`. */
  sql<Row = Record<string, unknown>>(query: string): Promise<Row[]>;
  /** SIGTERM unless another is named; resolves with the exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
  /** SIGKILL; resolves once the process is gone. */
  kill(): Promise<void>;
}

export interface RequestOptions {
  readonly headers?: Record<string, string>;
  /** A Buffer or string goes as it is, anything else as JSON. */
  readonly body?: unknown;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Buffer;
  text(): string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into whatever was answered.
  json(): any;
}

export interface StartOptions {
  readonly dataDir?: string;
  /** Undefined takes a variable away. */
  readonly env?: Record<string, string | undefined>;
  readonly args?: readonly string[];
}

const READY_WITHIN_MS = 30_000;

export async function startProduct(options: StartOptions = {}): Promise<Product> {
  const dataDir = options.dataDir ?? mkdtempSync(join(tmpdir(), 'questlog-'));
  const child = spawnProduct({ ...options, dataDir });
  const output = collectOutput(child);
  await ready(child, output);
  const credentials: Credentials = JSON.parse(readFileSync(join(dataDir, 'dev-credentials.json'), 'utf8'));
  const admin = (method: string, path: string, body?: unknown): Promise<Answer> =>
    send(credentials.adminUrl + path, method, credentials.adminToken, { body });
  return {
    credentials,
    dataDir,
    pid: child.pid ?? 0,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    request: (method, path, request) => send(credentials.baseUrl + path, method, credentials.token, request),
    admin,
    sql: async (query) => {
      const answer = await admin('POST', '/admin/sql', { query });
      if (answer.status !== 200) throw new Error(`${query}: ${answer.text()}`);
      return answer.json().data;
    },
    stop: (signal = 'SIGTERM') => end(child, signal),
    kill: async () => void (await end(child, 'SIGKILL')),
  };
}

/** Starts the process without waiting for anything; without the tests' own settings. */
export function spawnProduct({ dataDir, env, args = [] }: StartOptions): ChildProcess {
  const child = spawn(process.execPath, [ENTRY, ...args], {
    env: {
      ...ownEnvironment(),
      QUESTLOG_PORT: '0',
      QUESTLOG_ADMIN_PORT: '0',
      ...(dataDir === undefined ? {} : { QUESTLOG_DATA_DIR: dataDir }),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  // Whatever a failed test has left behind ends with the tests.
  const killAtExit = (): void => void child.kill('SIGKILL');
  process.once('exit', killAtExit);
  child.once('exit', () => process.off('exit', killAtExit));
  return child;
}

/** The environment less the `QUESTLOG_*` variables, which are the tests' own. */
export function ownEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('QUESTLOG_')));
}

export function removeDataDir({ dataDir }: { dataDir: string }): void {
  rmSync(dataDir, { recursive: true, force: true });
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

function ready(child: ChildProcess, output: Output): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new Error(`not ready within ${READY_WITHIN_MS} ms: ${output.stdout}${output.stderr}`));
    }, READY_WITHIN_MS);
    const settle = (outcome: () => void): void => {
      clearTimeout(timer);
      outcome();
    };
    child.stdout?.on('data', () => {
      if (output.stdout.includes('npm run sql')) settle(resolve);
    });
    child.once('exit', (code) => settle(() => reject(new Error(`exited with ${code}: ${output.stderr}`))));
  });
}

async function send(
  url: string,
  method: string,
  token: string,
  options: RequestOptions = {},
): Promise<Answer> {
  const { body } = options;
  const isRaw = typeof body === 'string' || Buffer.isBuffer(body);
  const raw = body === undefined ? undefined : isRaw ? body : JSON.stringify(body);
  const response = await fetch(url, {
    method,
    headers: {
      Authorization: `Bearer ${token}`,
      ...(raw === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...options.headers,
    },
    ...(raw === undefined ? {} : { body: typeof raw === 'string' ? raw : new Uint8Array(raw) }),
  });
  const bytes = Buffer.from(await response.arrayBuffer());
  return {
    status: response.status,
    headers: response.headers,
    bytes,
    text: () => bytes.toString('utf8'),
    json: () => JSON.parse(bytes.toString('utf8')),
  };
}

function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode);
  return new Promise((resolve) => {
    child.once('exit', (code) => resolve(code));
    child.kill(signal);
  });
}
