/** What each command does with the nodes of a stack. */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { brokerArguments, formatBrokers } from './brokerSetup.ts';
import { isFree } from './freePorts.ts';
import { type Jars, provideJars } from './jars.ts';
import { isAlive, killNow, startDetached, stop } from './ownProcess.ts';
import { answers, brokersKnownTo } from './probes.ts';
import { registryArguments } from './registrySetup.ts';
import {
  clusterFolder,
  loadStack,
  type Node,
  newStack,
  nodesOf,
  type Stack,
  saveStack,
} from './stackState.ts';
import { waitUntil } from './waitUntil.ts';

const READY_TIMEOUT_MS = 120_000;
const STOP_PATIENCE_MS = 10_000;

/**
 * Starts what does not run, and returns when all of it answers. What this call started is stopped again where that fails.
 *
 * @param brokerCount as many as there were last time, or 1, where it is not given.
 */
export async function bringUp(folder: string, brokerCount: number | undefined): Promise<Stack> {
  const jars = provideJars(folder);
  const stack = await formattedStack(folder, brokerCount, jars);
  await startAll(folder, stack, jars, nodesOf(stack));
  return stack;
}

export async function startNodes(folder: string, names: readonly string[]): Promise<void> {
  const stack = existingStack(folder);
  await startAll(folder, stack, provideJars(folder), nodesNamed(stack, names));
}

/** As in a crash: neither the node nor the others can prepare for it. */
export async function killNodes(folder: string, names: readonly string[]): Promise<void> {
  const killed = nodesNamed(existingStack(folder), names);
  for (const { name, process } of killed) if (!isAlive(process)) throw new Error(`${name} does not run`);
  await Promise.all(killed.map(async ({ process }) => process && killNow(process)));
}

/** Stops everything and keeps the data. */
export async function takeDown(folder: string): Promise<void> {
  const stack = loadStack(folder);
  if (stack !== undefined) await stopAll(nodesOf(stack));
}

/** One line a node: name, pid, port, up or down. Up means that its process lives and its port answers. */
export async function statusLines(folder: string): Promise<string[]> {
  const stack = loadStack(folder);
  if (stack === undefined) return [];
  return Promise.all(
    nodesOf(stack).map(async (node) => {
      const lives = isAlive(node.process);
      const isUp = lives && (await answers(node));
      return `${node.name} ${lives ? node.process?.pid : '-'} ${node.port} ${isUp ? 'up' : 'down'}`;
    }),
  );
}

async function formattedStack(folder: string, wanted: number | undefined, jars: Jars): Promise<Stack> {
  const before = loadStack(folder);
  if (before?.isFormatted) {
    const there = before.brokers.length;
    if (wanted === undefined || wanted === there) return before;
    throw new Error(
      `the cluster has ${there === 1 ? 'one broker' : `${there} brokers`}; for another run "down" and remove ${clusterFolder(folder)}`,
    );
  }
  rmSync(clusterFolder(folder), { recursive: true, force: true });
  const stack = await newStack(wanted ?? 1);
  saveStack(folder, stack);
  await formatBrokers(folder, stack, jars);
  stack.isFormatted = true;
  saveStack(folder, stack);
  return stack;
}

function existingStack(folder: string): Stack {
  const stack = loadStack(folder);
  if (!stack?.isFormatted) throw new Error(`there is no stack in ${folder}; begin with "up"`);
  return stack;
}

function nodesNamed(stack: Stack, names: readonly string[]): Node[] {
  const nodes = nodesOf(stack);
  return [...new Set(names)].map((name) => {
    const node = nodes.find((one) => one.name === name);
    if (node !== undefined) return node;
    throw new Error(`there is no ${name}, only ${nodes.map((one) => one.name).join(', ')}`);
  });
}

async function startAll(folder: string, stack: Stack, jars: Jars, nodes: readonly Node[]): Promise<void> {
  const started = nodes.filter(({ process }) => !isAlive(process));
  try {
    for (const node of started) await start(folder, stack, jars, node);
    await waitUntil(() => isReady(folder, stack, started), {
      timeoutMs: READY_TIMEOUT_MS,
      what: `${nodes.map(({ name }) => name).join(', ')} to answer; see the logs in ${logFolder(folder)}`,
    });
  } catch (error) {
    await stopAll(started);
    throw error;
  }
}

async function start(folder: string, stack: Stack, jars: Jars, node: Node): Promise<void> {
  const ports = node.kind === 'broker' ? [node.port, node.controllerPort] : [node.port];
  for (const port of ports) {
    if (!(await isFree(port))) throw new Error(`port ${port} of ${node.name} is taken by another process`);
  }
  const args =
    node.kind === 'broker' ? brokerArguments(folder, node, jars) : registryArguments(folder, node, jars);
  mkdirSync(logFolder(folder), { recursive: true });
  node.process = await startDetached(jars.java, args, logPath(folder, node));
  saveStack(folder, stack);
}

/** Ready is when each broker that runs knows all that run: a client may ask any of them. */
async function isReady(
  folder: string,
  { brokers, registry }: Stack,
  started: readonly Node[],
): Promise<boolean> {
  for (const node of started) {
    if (!isAlive(node.process)) throw new Error(`${node.name} has ended; see ${logPath(folder, node)}`);
  }
  const running = brokers.filter(({ process }) => isAlive(process));
  const known = await Promise.all(running.map(({ port }) => brokersKnownTo(port)));
  if (!known.every((ids) => running.every(({ id }) => ids.includes(id)))) return false;
  return !isAlive(registry.process) || answers(registry);
}

async function stopAll(nodes: readonly Node[]): Promise<void> {
  await Promise.all(
    nodes.map(async ({ process }) => (isAlive(process) ? stop(process, STOP_PATIENCE_MS) : undefined)),
  );
}

function logPath(folder: string, { name }: Node): string {
  return join(logFolder(folder), `${name}.log`);
}

function logFolder(folder: string): string {
  return join(folder, 'logs');
}
