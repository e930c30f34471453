/** Questlog as the bench runs it: the ingest of a source tree as a process of its own, and a projector behind it. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { aProject, eventually, type Reached } from '../../e2e/builders.ts';
import { clusterEnvironment } from '../../e2e/cluster.ts';
import { collectOutput, end, ownEnvironment, ready, send } from '../../e2e/product.ts';
import { openConnections } from '../connections.ts';
import { registerSessions } from '../load/loadPhases.ts';
import type { Peer } from '../peers/peer.ts';
import type { BenchStack } from './benchStack.ts';

export const OWN_TREE = fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, '');

export interface QuestlogPeer extends Peer {
  readonly sessions: readonly string[];
  /** Where its inspector listens, if it was asked for. */
  readonly inspectorUrl: string | undefined;
  /** Resolves when it is ready. @returns its process id; it ends with the ingest. */
  startProjector(): Promise<number>;
  /** Resolves when ClickHouse has every event. @returns how many there are. */
  caughtUp(): Promise<number>;
}

export interface QuestlogOptions {
  /** The source tree. */
  readonly root: string;
  /** A deployment's name: its topics and its database. */
  readonly name: string;
  readonly isInspected: boolean;
}

const ADMIN_TOKEN = 'qla_of_the_bench_and_long_enough';
const READY_WITHIN_MS = 180_000;
const CAUGHT_UP_WITHIN_MS = 180_000;
const QUOTA = 1_000_000_000;
const SESSIONS = 1_000;
const SESSION_CONNECTIONS = 16;

export async function startQuestlog(stack: BenchStack, options: QuestlogOptions): Promise<QuestlogPeer> {
  const dataDir = join(stack.folder, options.name);
  mkdirSync(dataDir);
  const env = {
    ...clusterEnvironment(stack.engines, dataDir),
    QUESTLOG_DEMO: 'off',
    QUESTLOG_ADMIN_TOKEN: ADMIN_TOKEN,
    QUESTLOG_DATA_DIR: dataDir,
    QUESTLOG_PORT: '0',
    QUESTLOG_ADMIN_PORT: '0',
  };
  const children: ChildProcess[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(children.map((child) => end(child, 'SIGTERM')));
  };
  try {
    const ingest = await startService('ingest', options, env);
    children.push(ingest.child);
    const { reached, baseUrl } = ingest;
    const project = await aProject(reached, { revision: 'A', monthlySoftQuota: QUOTA });
    const connections = openConnections(baseUrl, project.token, SESSION_CONNECTIONS);
    const sessions = await registerSessions(connections, SESSIONS);
    connections.close();
    return {
      ...{ name: 'questlog', version: versionOf(options.root), pid: ingest.child.pid ?? 0, status: 201 },
      ...{ url: `${baseUrl}/v1/ingest/events`, token: project.token, topics: `${options.name}.` },
      ...{ sessions, stop, inspectorUrl: ingest.inspectorUrl },
      bodyOf: (batch) => batch,
      startProjector: async () => {
        const { child } = await startService('projector', { ...options, isInspected: false }, env);
        children.push(child);
        return child.pid ?? 0;
      },
      // The quota is answered once the projection has passed the log's end as it was.
      caughtUp: async () => {
        const quota = () => project.get('/v1/quota');
        const answer = await eventually(quota, ({ status }) => status === 200, CAUGHT_UP_WITHIN_MS);
        return answer.json().used;
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The commit of a tree, and whether it has changes beside. */
function versionOf(root: string): string {
  const asked = ['-C', root, 'describe', '--always', '--dirty', '--abbrev=7', '--exclude=*'];
  try {
    return execFileSync('git', asked, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    // A tree that was taken out of its repository is called by its commit.
    return basename(root);
  }
}

interface StartedService {
  readonly child: ChildProcess;
  readonly baseUrl: string;
  readonly reached: Reached;
  readonly inspectorUrl: string | undefined;
}

async function startService(
  service: 'ingest' | 'projector',
  { root, isInspected }: QuestlogOptions,
  env: Readonly<Record<string, string>>,
): Promise<StartedService> {
  const entry = join(root, 'services/standalone/src/main.ts');
  const inspect = isInspected ? ['--inspect=127.0.0.1:0'] : [];
  const child = spawn(process.execPath, [...inspect, entry, service], {
    env: { ...ownEnvironment(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
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
  const inspectorUrl = /Debugger listening on (ws:\S+)/.exec(output.stderr)?.[1];
  return { child, baseUrl, reached, inspectorUrl };
}
