/** Starts ClickHouse inside this process: an engine on a directory, behind ClickHouse's HTTP interface on loopback. */

import { randomUUID } from 'node:crypto';
import { glob, mkdir, readdir, readFile, readlink, realpath, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf, StartRefused } from '../../process/errors.ts';
import { createAdmission } from './engine/admission.ts';
import { loadChdbAddon } from './engine/chdbAddon.ts';
import { type Engine, openEngine } from './engine/engine.ts';
import { engineConfig, usersConfig } from './engine/engineConfig.ts';
import * as limits from './engine/limits.ts';
import { isDiskFull, openRequestFiles } from './engine/requestFiles.ts';
import { handleRequest } from './http/requestHandler.ts';
import type { Credentials } from './http/requestParsing.ts';

export interface EmbeddedClickHouseOptions {
  /** Made when it is not there. One process at a time may have it. */
  directory: string;
  /** 0 (the default) takes any free port. */
  port?: number;
  username?: string;
  password: string;
  /** The account that only reads the product's databases. Nobody has it by default. */
  reader?: Credentials;
  /** The only folder to which it writes backups, or restores from. */
  backups?: string;
  /** Queries in the engine at once; each holds a libuv thread, so stay below UV_THREADPOOL_SIZE (4 unless set). */
  maxConcurrentQueries?: number;
  /** Of readers, beside them. */
  maxConcurrentReaders?: number;
  /** How long a reader's statement may run; less than the default for tests. */
  maxReaderSeconds?: number;
  /** Called when the engine is of no use any more: a statement outlasts being killed, a write has failed, or it has shut down. */
  onBroken?: (reason: string) => void;
}

export interface EmbeddedClickHouse {
  /** `http://127.0.0.1:<port>` */
  url: string;
  username: string;
  password: string;
  /** Resolves when the engine has answered a query, whatever it said; beside the places of the accounts. */
  probe(): Promise<void>;
  /** Waits for running requests (bounded), then lets go of the directory. */
  close(): Promise<void>;
}

/** @throws StartRefused when the directory is held by another process, the port is taken or chdb has no build for here */
export async function startEmbeddedClickHouse(
  options: EmbeddedClickHouseOptions,
): Promise<EmbeddedClickHouse> {
  const { username = 'default', password } = options;
  await mkdir(options.directory, { recursive: true });
  const directory = await realpath(options.directory);
  // The path of an insert's file goes to the engine as a pattern.
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
    const accounts = { product: { username, password }, reader: options.reader ?? disabledAccount() };
    const requests = new Set<Promise<unknown>>();
    const deps = { engine, files, admission, accounts };
    const server = createServer(SERVER_OPTIONS, (request, response) => {
      const openRequests = () => requests.size;
      const sent = new Promise((resolve) => response.once('close', resolve));
      const work = Promise.all([handleRequest({ ...deps, openRequests }, request, response), sent]);
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

/**
 * One engine a process and one process a directory: both are chdb's, and are said here before it says them worse.
 * @returns what gives the directory back
 */
async function claimDirectory(directory: string): Promise<() => void> {
  if (claimedDirectory !== undefined) {
    throw new StartRefused(`this process already runs an embedded ClickHouse, on ${claimedDirectory}`);
  }
  claimedDirectory = directory;
  const release = (): void => {
    claimedDirectory = undefined;
  };
  const ownerPid = await waitForOwner(join(directory, 'clickhouse', 'status'));
  if (ownerPid === undefined) return release;
  release();
  throw new StartRefused(`another process (pid ${ownerPid}) has the embedded ClickHouse in ${directory}`);
}

/** One whose supervisor was just killed ends by itself: it is waited for. */
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
 * The engine locks its status file and would refuse by itself, with a line of its own on stderr. So it is asked first,
 * where it can be (Linux), whether the process that is named in it has it open: the number alone proves nothing after
 * a crash, when another process may have got it.
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

/** State of the module, because the engine is state of the process: chdb binds one directory in all of it. */
let claimedDirectory: string | undefined;

/** An account whose password nobody knows. */
function disabledAccount(): Credentials {
  return { username: 'reader', password: randomUUID() };
}

async function startEngine(
  directory: string,
  { backups, maxReaderSeconds = limits.MAX_READER_SECONDS, onBroken = () => {} }: EmbeddedClickHouseOptions,
): Promise<Engine> {
  if (isDiskFull(directory)) await removeLeftovers(directory);
  // The engine would not notice what the disk did not take.
  if (isDiskFull(directory)) throw new StartRefused(`the disk is full: make room for ${directory}`);
  const configPath = join(directory, 'engine.xml');
  const usersPath = join(directory, 'users.xml');
  await writeFile(configPath, engineConfig(usersPath, backups));
  await writeFile(usersPath, usersConfig());
  try {
    const addon = loadChdbAddon();
    const args = [`--config-file=${configPath}`];
    return await openEngine(addon, join(directory, 'clickhouse'), args, { maxReaderSeconds, onBroken });
  } catch (cause) {
    throw new StartRefused(`the embedded ClickHouse does not start on ${directory}: ${messageOf(cause)}`, {
      cause,
    });
  }
}

/**
 * What a killed process left and no start takes over, which may be what has filled the disk. Only on Linux, where it is
 * known (`findHolder`) that nobody works on it.
 */
async function removeLeftovers(directory: string): Promise<void> {
  if (process.platform !== 'linux') return;
  for await (const path of glob(LEFTOVERS, { cwd: directory }))
    await rm(join(directory, path), { recursive: true, force: true });
}

/** Of requests, of sorts and groupings on the disk, and of parts: the engine removes the latter two as well, once it is open. */
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

/** An upload may take as long as it goes on. */
const SERVER_OPTIONS = { keepAliveTimeout: limits.KEEP_ALIVE_MS, requestTimeout: 0 };
