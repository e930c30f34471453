/**
 * Starts ClickHouse inside this process: an engine that stores its data in a directory, and ClickHouse's HTTP interface on
 * loopback.
 */

import { randomUUID } from 'node:crypto';
import { glob, mkdir, readdir, readFile, readlink, realpath, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf, StartRefused } from '../../process/errors.ts';
import type { StudioReader } from '../studioTables.ts';
import { createAdmission } from './engine/admission.ts';
import { loadChdbAddon } from './engine/chdbAddon.ts';
import { type Engine, openEngine } from './engine/engine.ts';
import { engineConfig, usersConfig } from './engine/engineConfig.ts';
import * as limits from './engine/limits.ts';
import { isDiskFull, openRequestFiles } from './engine/requestFiles.ts';
import { createStudioQuota } from './engine/studioQuota.ts';
import { type Backend, handleRequest } from './http/requestHandler.ts';
import type { Credentials } from './http/requestParsing.ts';
import type { StudioStatement } from './http/statementAudit.ts';

export interface EmbeddedClickHouseOptions {
  /** Data directory of ClickHouse. Only one process can use the directory at a time. */
  directory: string;
  /** Port of the HTTP interface. 0 (the default) selects any free port. */
  port?: number;
  username?: string;
  password: string;
  /** Read-only account for queries of Questlog's databases. If undefined, no such account exists. */
  reader?: Credentials;
  /** Accounts of studios by their names. Changes of the map take effect immediately. */
  studios?: ReadonlyMap<string, StudioReader>;
  /** The only folder that the SQL statements BACKUP and RESTORE can use. */
  backups?: string;
  /** Maximum number of concurrent queries. Must be lower than `UV_THREADPOOL_SIZE`, because each query occupies a thread. */
  maxConcurrentQueries?: number;
  /** Maximum number of concurrent queries of the `reader` account. These queries do not count for `maxConcurrentQueries`. */
  maxConcurrentReaders?: number;
  maxReaderSeconds?: number;
  /** Maximum execution time of a studio's account per hour. Only tests set this time. */
  studioQuotaSeconds?: number;
  /**
   * Called when the engine needs a restart, because the engine has shut down, a file write has failed, or a statement cannot be
   * killed.
   */
  onBroken?: (reason: string) => void;
  /** Called when a statement of a studio's account has ended. */
  onStudioStatement?: (statement: StudioStatement) => void;
  /** Called when no response could be sent to a request because of a bug. */
  onRequestFailure?: (error: unknown) => void;
}

export interface EmbeddedClickHouse {
  url: string;
  username: string;
  password: string;
  /** Checks that the engine answers a query. An error response is also an answer. */
  probe(): Promise<void>;
  close(): Promise<void>;
}

/** Starts the engine and the HTTP interface. @throws StartRefused if the directory or the port is in use. */
export async function startEmbeddedClickHouse(
  options: EmbeddedClickHouseOptions,
): Promise<EmbeddedClickHouse> {
  const { username = 'default', password } = options;
  await mkdir(options.directory, { recursive: true });
  const directory = await realpath(options.directory);
  if (/[*?{}]/.test(directory)) {
    throw new StartRefused(`the data directory's path must not contain any of * ? { }: ${directory}`);
  }
  const release = await claimDirectory(directory);
  try {
    const engine = await startEngine(directory, options);
    const files = await openRequestFiles(directory);
    const { maxConcurrentQueries, maxConcurrentReaders } = options;
    const admission = {
      product: createAdmission(maxConcurrentQueries ?? limits.DEFAULT_CONCURRENT_QUERIES),
      reader: createAdmission(maxConcurrentReaders ?? limits.DEFAULT_CONCURRENT_READERS),
    };
    const { reader = disabledAccount(), studios = new Map() } = options;
    const accounts = { product: { username, password }, reader, studios };
    const { onRequestFailure = () => {}, onStudioStatement = () => {} } = options;
    const studioQuota = createStudioQuota(options.studioQuotaSeconds ?? limits.STUDIO_QUOTA_SECONDS);
    const callbacks = { onRequestFailure, onStudioStatement };
    const backend: Backend = { engine, files, admission, studioQuota, readers: new Map(), ...callbacks };
    const requests = new Set<Promise<unknown>>();
    const server = createServer(SERVER_OPTIONS, (request, response) => {
      const sent = new Promise((resolve) => response.once('close', resolve));
      const work = Promise.all([handleRequest(backend, accounts, request, response), sent]);
      requests.add(work);
      void work.finally(() => requests.delete(work));
    });
    server.setTimeout(limits.SOCKET_IDLE_MS);
    const port = await listen(server, options.port ?? 0).catch(async (error: unknown) => {
      await engine.close();
      throw error;
    });
    let closed: Promise<void> | undefined;
    const close = () => {
      closed ??= shutDown(server, requests, engine).finally(release);
      return closed;
    };
    return {
      url: `http://127.0.0.1:${port}`,
      username,
      password,
      probe: () => engine.probe().catch(() => {}),
      close,
    };
  } catch (error) {
    release();
    throw error;
  }
}

async function claimDirectory(directory: string): Promise<() => void> {
  if (claimedDirectory !== undefined) {
    throw new StartRefused(`this process already runs an embedded ClickHouse in ${claimedDirectory}`);
  }
  claimedDirectory = directory;
  const release = (): void => {
    claimedDirectory = undefined;
  };
  const ownerPid = await waitForOwner(join(directory, 'clickhouse', 'status'));
  if (ownerPid === undefined) return release;
  release();
  throw new StartRefused(`another process (pid ${ownerPid}) uses the embedded ClickHouse in ${directory}`);
}

async function waitForOwner(statusFile: string): Promise<number | undefined> {
  const deadline = performance.now() + OWNER_WAIT_MS;
  for (;;) {
    const ownerPid = await findOwner(statusFile);
    if (ownerPid === undefined || performance.now() >= deadline) return ownerPid;
    await delay(OWNER_CHECK_INTERVAL_MS);
  }
}

const OWNER_WAIT_MS = 2_000;
const OWNER_CHECK_INTERVAL_MS = 50;

/**
 * Returns the id of the process that uses the data directory (Linux only). The status file contains a process id. After a
 * crash, an unrelated process can get the same id. Therefore, this function checks that the process has the status file open.
 */
async function findOwner(statusFile: string): Promise<number | undefined> {
  const pid = Number(/^PID: (\d+)/m.exec(await readFile(statusFile, 'utf8').catch(() => ''))?.[1]);
  if (!Number.isInteger(pid) || pid === process.pid) return undefined;
  const descriptors = `/proc/${pid}/fd`;
  for (const name of await readdir(descriptors).catch(() => [])) {
    const target = await readlink(join(descriptors, name)).catch(() => '');
    if (target === statusFile) return pid;
  }
  return undefined;
}

/** Data directory of the engine in this process. chdb can open only one directory per process. */
let claimedDirectory: string | undefined;

function disabledAccount(): Credentials {
  return { username: 'reader', password: randomUUID() };
}

async function startEngine(
  directory: string,
  { backups, maxReaderSeconds = limits.MAX_READER_SECONDS, onBroken = () => {} }: EmbeddedClickHouseOptions,
): Promise<Engine> {
  if (isDiskFull(directory)) await removeLeftovers(directory);
  // Checks the free disk space, because the engine does not detect failed writes.
  if (isDiskFull(directory)) throw new StartRefused(`the disk is full: free space for ${directory}`);
  const configPath = join(directory, 'engine.xml');
  const usersPath = join(directory, 'users.xml');
  await writeFile(configPath, engineConfig(usersPath, backups));
  await writeFile(usersPath, usersConfig());
  try {
    const addon = loadChdbAddon();
    const args = [`--config-file=${configPath}`];
    return await openEngine(addon, join(directory, 'clickhouse'), args, { maxReaderSeconds, onBroken });
  } catch (cause) {
    throw new StartRefused(`the embedded ClickHouse cannot start in ${directory}: ${messageOf(cause)}`, {
      cause,
    });
  }
}

/** Deletes temporary files of a killed process, because these files can have filled the disk. */
async function removeLeftovers(directory: string): Promise<void> {
  if (process.platform !== 'linux') return;
  for await (const path of glob(LEFTOVERS, { cwd: directory }))
    await rm(join(directory, path), { recursive: true, force: true });
}

const LEFTOVERS = ['incoming/*', 'outgoing/*', 'clickhouse/tmp/*', 'clickhouse/store/*/*/tmp_*'];

function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause) =>
      reject(
        new StartRefused(`the embedded ClickHouse cannot listen on 127.0.0.1:${port}: ${cause.message}`, {
          cause,
        }),
      ),
    );
    server.listen(port, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
}

async function shutDown(
  server: Server,
  requests: ReadonlySet<Promise<unknown>>,
  engine: Engine,
): Promise<void> {
  const stopped = new Promise((resolve) => server.close(resolve));
  server.closeIdleConnections();
  const settled = Promise.allSettled(requests);
  await Promise.race([settled, delay(limits.CLOSE_GRACE_MS, undefined, { ref: false })]);
  server.closeAllConnections();
  await engine.close();
  await stopped;
}

const SERVER_OPTIONS = { keepAliveTimeout: limits.KEEP_ALIVE_MS, requestTimeout: 0 };
