/** Starts the compared servers, which accept the same events over HTTP, each in its own process. */
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
  /** URL for events. */
  readonly url: string;
  readonly token: string;
  /** Status of a response that confirms that the events are stored. */
  readonly status: number;
  /** Converts the body of a Questlog request to a request of the peer. */
  bodyOf(batch: Buffer): Buffer;
}

/** Resources for the peers. */
export interface PeerGround {
  readonly brokers: string;
  /** Partitions of a peer's topic. */
  readonly partitions: number;
  /** Folder for files of the peers; removed after the peers end. */
  readonly folder: string;
  /** Ends the peers. */
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
  return { name: 'afternoon', version: libraries, ...started, url: started.url + path };
}

export async function startFloor(ground: PeerGround): Promise<Peer> {
  const started = await startOnNode(ground, 'floor.ts', []);
  return { name: 'floor', version: `node:http of Node ${process.versions.node}`, ...started };
}

/** @throws Error with the reason if the Collector cannot be built or does not start */
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
    ...{ name: 'collector', version: COLLECTOR_VERSION, url, token: TOKEN, status: 200 },
    pid: child.pid ?? 0,
    bodyOf: otlpOf,
  };
}

/** Starts a process that ends with `ending`. The end is registered first, so that an interrupt leaves no process behind. */
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

/** Returns the name and version of an installed package. */
function versionOf(name: string): string {
  const path = fileURLToPath(new URL(`../../../node_modules/${name}/package.json`, import.meta.url));
  const { version }: { version: string } = JSON.parse(readFileSync(path, 'utf8'));
  return `${name} ${version}`;
}

/** Starts a peer of this folder, which prints its port. */
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
