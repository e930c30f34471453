/** Starts Questlog for the benchmark: the ingest of a source tree as a process, and a projector. */
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { aProject, eventually, type Reached, type TestProject } from '../../e2e/builders.ts';
import { clusterEnvironment } from '../../e2e/cluster.ts';
import {
  collectOutput,
  hasReadDirectory,
  ownEnvironment,
  ready,
  send,
  startedWith,
} from '../../e2e/product.ts';
import { fileReports, registerSessions } from '../flat/fillDeployment.ts';
import { PLAIN, type RequestKind } from '../kinds/requestKinds.ts';
import { type Peer, spawnFor } from '../peers/peer.ts';
import type { BenchStack } from './benchStack.ts';

export const OWN_TREE = fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, '');

export interface QuestlogPeer extends Peer {
  /** Returns the project for requests of a kind. */
  senderOf(kind: RequestKind): Promise<Sender>;
  /** Starts one more process, which ends with the benchmark. */
  start: StartProcess;
  /** Returns the number of records that the consumers have not processed. */
  lagRecords(): Promise<number>;
  /** Resolves with the number of events when ClickHouse has all events. */
  caughtUp(): Promise<number>;
}

export interface Sender {
  readonly token: string;
  readonly sessions: readonly string[];
}

export interface QuestlogOptions {
  /** Root of the source tree. */
  readonly root: string;
  /** Name of the deployment: its topics and its database. */
  readonly name: string;
  /** Number of sessions of each project. */
  readonly sessions?: number;
}

const ADMIN_TOKEN = 'qla_of_the_bench_and_long_enough';
const READY_WITHIN_MS = 180_000;
const CAUGHT_UP_WITHIN_MS = 180_000;
const PROJECT = { revision: 'A', monthlySoftQuota: 1_000_000_000 } as const;
const SESSIONS = 1_000;

/** @param settings settings in addition to the benchmark's */
export async function startQuestlog(
  stack: BenchStack,
  options: QuestlogOptions,
  settings: Readonly<Record<string, string>> = {},
): Promise<QuestlogPeer> {
  const start = openDeployment(stack, options, settings);
  const ingest = await start('ingest');
  const { pid, reached, baseUrl } = ingest;
  const project = await aProject(reached, PROJECT);
  const { sessions = SESSIONS } = options;
  const plain = await aSender(ingest, project, PLAIN, sessions);
  const senders = new Map<RequestKind, Sender>();
  return {
    ...{ name: 'questlog', version: versionOf(options.root), pid, status: 201 },
    ...{ url: `${baseUrl}/v1/ingest/events`, token: project.token },
    bodyOf: (batch) => batch,
    senderOf: async (kind) => {
      if (!(kind.switches || kind.hasReports)) return plain;
      const sender =
        senders.get(kind) ?? (await aSender(ingest, await aProject(reached, PROJECT), kind, sessions));
      senders.set(kind, sender);
      return sender;
    },
    start,
    lagRecords: async () => {
      const { consumers } = (await reached.admin('GET', '/admin/lag')).json();
      return consumers.reduce((sum: number, one: { lagRecords: number }) => sum + one.lagRecords, 0);
    },
    // Reads the quota; the response waits until the projection has passed the end of the log.
    caughtUp: async () => {
      const quota = () => project.get('/v1/quota');
      const answer = await eventually(quota, ({ status }) => status === 200, CAUGHT_UP_WITHIN_MS);
      return answer.json().used;
    },
  };
}

/** Registers the sessions of a project, and sets its switches and reports. */
async function aSender(
  { reached }: StartedService,
  project: TestProject,
  { switches, hasReports }: RequestKind,
  count: number,
): Promise<Sender> {
  if (switches !== undefined) {
    const { status } = await reached.admin('PUT', `/admin/projects/${project.projectId}/switches`, switches);
    if (status !== 200) throw new Error(`setting the switches failed with status ${status}`);
  }
  const sessions = await registerSessions(project, count);
  if (hasReports) await fileReports(project, sessions, count, () => {});
  return { token: project.token, sessions };
}

/** Starts one more process, which ends with the benchmark. Resolves when the process is ready. @param more settings of the process */
export type StartProcess = (
  service: 'ingest' | 'linker' | 'projector',
  more?: Readonly<Record<string, string>>,
) => Promise<StartedService>;

/** @param settings settings of all processes in addition to the benchmark's */
export function openDeployment(
  stack: BenchStack,
  { root, name }: QuestlogOptions,
  settings: Readonly<Record<string, string>> = {},
): StartProcess {
  const dataDir = join(stack.folder, name);
  mkdirSync(dataDir);
  const env = {
    ...clusterEnvironment(stack.engines, dataDir),
    KAFKA_REPLICATION_FACTOR: '-1',
    QUESTLOG_DEMO: 'off',
    QUESTLOG_ADMIN_TOKEN: ADMIN_TOKEN,
    QUESTLOG_DATA_DIR: dataDir,
    QUESTLOG_PORT: '0',
    QUESTLOG_ADMIN_PORT: '0',
    ...settings,
  };
  let operations: Promise<StartedService> | undefined;
  return async (service, more) => {
    operations ??= startService(stack.ending, 'operations', root, env);
    const [started, { adminUrl, reached }] = await Promise.all([
      startService(stack.ending, service, root, { ...env, ...more }),
      operations,
    ]);
    const admin: Reached['admin'] = async (method, path, body) => {
      const answer = await reached.admin(method, path, body);
      if (method !== 'GET') await hasReadDirectory(started.adminUrl, adminUrl);
      return answer;
    };
    return { ...started, reached: { ...started.reached, admin } };
  };
}

/** Returns the commit of a tree, and whether the tree has uncommitted changes. */
function versionOf(root: string): string {
  const asked = ['-C', root, 'describe', '--always', '--dirty', '--abbrev=7', '--exclude=*'];
  try {
    return execFileSync('git', asked, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    // A tree that was extracted from its repository is named after its commit.
    return basename(root);
  }
}

export interface StartedService {
  readonly pid: number;
  readonly baseUrl: string;
  /** URL for operators. */
  readonly adminUrl: string;
  readonly reached: Reached;
}

async function startService(
  ending: AsyncDisposableStack,
  service: 'ingest' | 'operations' | 'linker' | 'projector',
  root: string,
  env: Readonly<Record<string, string>>,
): Promise<StartedService> {
  const given = startedWith(root);
  const args = [...given.flags, given.entry, service];
  const child = spawnFor(ending, process.execPath, args, {
    ...ownEnvironment(),
    ...given.env,
    ...env,
  });
  const output = collectOutput(child);
  await ready(child, output, READY_WITHIN_MS);
  const urlOf = (what: string): string =>
    new RegExp(`^ +${what} +(\\S+)$`, 'm').exec(output.stdout)?.[1] ?? '';
  const [baseUrl, adminUrl] = [urlOf('games'), urlOf('operators')];
  const reached: Reached = {
    request: (method, path, options) => send(baseUrl + path, method, '', options),
    admin: (method, path, body) => send(adminUrl + path, method, ADMIN_TOKEN, { body }),
  };
  return { pid: child.pid ?? 0, baseUrl, adminUrl, reached };
}
