/** What the bench measures side by side: servers that take the same events over HTTP, each a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { createTopic } from '@questlog/runtime/log/kafka/testing/createTopic';
import { eventually } from '../../e2e/builders.ts';
import { collectOutput, end, type Output } from '../../e2e/product.ts';
import { COLLECTOR_VERSION, collectorSettings, otlpOf, provideCollector } from './collector.ts';

export type PeerName = 'questlog' | 'afternoon' | 'floor' | 'collector';

export interface Peer {
  readonly name: PeerName;
  readonly version: string;
  readonly pid: number;
  /** Where events are posted to. */
  readonly url: string;
  readonly token: string;
  /** The status of an answer that says that the events are kept. */
  readonly status: number;
  /** How the names of its topics begin; undefined: it has none. */
  readonly topics?: string;
  /** The body of a request, of what Questlog takes. */
  bodyOf(batch: Buffer): Buffer;
}

/** Where and with what the peers start. */
export interface PeerGround {
  readonly brokers: string;
  /** Partitions of a peer's topic. */
  readonly partitions: number;
  /** For their files; it outlives them. */
  readonly folder: string;
  /** They end with it. */
  readonly ending: AsyncDisposableStack;
}

const TOKEN = 'a_token_of_the_bench';
const READY_WITHIN_MS = 60_000;

export async function startAfternoon(ground: PeerGround): Promise<Peer> {
  const topic = 'afternoon';
  await createTopicOf(ground, topic);
  const libraries = ['koa', '@koa/router', 'koa-bodyparser', 'kafkajs'].map(versionOf).join(', ');
  const started = await startOnNode(ground, 'afternoon.ts', [ground.brokers, topic, TOKEN]);
  const path = '/v1/ingest/events';
  return { name: 'afternoon', version: libraries, topics: topic, ...started, url: started.url + path };
}

export async function startFloor(ground: PeerGround): Promise<Peer> {
  const started = await startOnNode(ground, 'floor.ts', []);
  return { name: 'floor', version: `node:http of Node ${process.versions.node}`, ...started };
}

/** @throws with the reason where it cannot be built or does not start. */
export async function startCollector(ground: PeerGround): Promise<Peer> {
  const program = await provideCollector(ground.ending);
  const topic = 'collector';
  await createTopicOf(ground, topic);
  const [port = 0] = await freePorts(1);
  const settings = join(ground.folder, 'collector.json');
  writeFileSync(settings, collectorSettings(ground.brokers, topic, port));
  const child = spawnFor(ground.ending, program, ['--config', settings]);
  const output = collectOutput(child);
  const url = `http://127.0.0.1:${port}/v1/logs`;
  const isUp = async (): Promise<boolean> => {
    const answer = await fetch(url, { method: 'POST' }).catch(() => undefined);
    return answer !== undefined;
  };
  await readyOrEnded(child, output, isUp);
  return {
    ...{ name: 'collector', version: COLLECTOR_VERSION, url, topics: topic, token: TOKEN, status: 200 },
    pid: child.pid ?? 0,
    bodyOf: otlpOf,
  };
}

/** Ends with `ending`, which is told first: nothing starts that an interrupted bench would leave behind. */
export function spawnFor(
  ending: AsyncDisposableStack,
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): ChildProcess {
  let child: ChildProcess | undefined;
  ending.defer(async () => {
    if (child !== undefined) await end(child, 'SIGTERM');
  });
  child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  return child;
}

/** The version of an installed package, with its name. */
function versionOf(name: string): string {
  const path = fileURLToPath(new URL(`../../../node_modules/${name}/package.json`, import.meta.url));
  const { version }: { version: string } = JSON.parse(readFileSync(path, 'utf8'));
  return `${name} ${version}`;
}

/** A peer beside this file, which tells its port. */
async function startOnNode(
  { ending }: PeerGround,
  file: string,
  args: readonly string[],
): Promise<Omit<Peer, 'name' | 'version'>> {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const child = spawnFor(ending, process.execPath, [path, ...args]);
  const output = collectOutput(child);
  const port = (): string | undefined => /^port (\d+)$/m.exec(output.stdout)?.[1];
  await readyOrEnded(child, output, async () => port() !== undefined);
  return {
    ...{ url: `http://127.0.0.1:${port()}`, token: TOKEN, status: 201 },
    pid: child.pid ?? 0,
    bodyOf: (batch) => batch,
  };
}

async function readyOrEnded(
  child: ChildProcess,
  output: Output,
  isReady: () => Promise<boolean>,
): Promise<void> {
  const holds = async (): Promise<boolean> => {
    if (child.exitCode !== null) throw new Error(`it ended at once: ${output.stderr.trim().slice(-500)}`);
    return await isReady();
  };
  await eventually(holds, Boolean, READY_WITHIN_MS).catch(async (error: unknown) => {
    await end(child, 'SIGKILL');
    throw error;
  });
}

async function createTopicOf({ brokers, partitions }: PeerGround, topic: string): Promise<void> {
  await createTopic(brokers.split(','), { topic, numPartitions: partitions, replicationFactor: 1 });
}
