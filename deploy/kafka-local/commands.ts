/** The commands of `npm run stack`, which start and stop the nodes of a stack. */
import { rmSync } from 'node:fs';
import { formatBrokers } from './brokerSetup.ts';
import { provideClassArchive } from './classArchive.ts';
import { freePorts } from './freePorts.ts';
import { type Jars, provideJars } from './jars.ts';
import { isAlive, killNow } from './ownProcess.ts';
import { answers } from './probes.ts';
import { provideS3Server } from './s3/s3Server.ts';
import {
  clusterFolder,
  loadStack,
  type Node,
  newClickHouse,
  newS3,
  newStack,
  nodesOf,
  type Stack,
  saveStack,
} from './stackState.ts';
import { startAll, stopAll } from './starting.ts';

export interface StackFolders {
  readonly folder: string;
  readonly jarsFolder: string;
}

/** Downloads or builds the missing parts of a stack. The first call takes minutes. */
export async function provideParts(
  { jarsFolder }: Pick<StackFolders, 'jarsFolder'>,
  hasS3: boolean,
): Promise<{ readonly jars: Jars; readonly program: string | undefined }> {
  const jars = await provideJars(jarsFolder);
  await provideClassArchive(jars);
  return { jars, program: hasS3 ? await provideS3Server(jarsFolder) : undefined };
}

/**
 * Starts the nodes that do not run, and waits until all nodes respond. After a failure, stops the nodes that this call started.
 * @param brokerCount - the default is the number of brokers of the latest start, or 1 for a new stack.
 */
export async function bringUp(
  { folder, jarsFolder }: StackFolders,
  brokerCount: number | undefined,
  hasS3: boolean,
): Promise<Stack> {
  const { jars, program } = await provideParts({ jarsFolder }, hasS3);
  const stack = await formattedStack(folder, brokerCount, jars);
  if (program !== undefined) await addS3(folder, stack, program);
  await startAll(folder, stack, jars, nodesOf(stack));
  return stack;
}

export async function startNodes(
  { folder, jarsFolder }: StackFolders,
  names: readonly string[],
): Promise<void> {
  const stack = existingStack(folder);
  const nodes = nodesNamed(stack, names);
  await startAll(folder, stack, await provideJars(jarsFolder), nodes);
}

export async function killNodes(folder: string, names: readonly string[]): Promise<void> {
  const killed = nodesNamed(existingStack(folder), names);
  for (const { name, process } of killed) if (!isAlive(process)) throw new Error(`${name} does not run`);
  await Promise.all(killed.map(async ({ process }) => process && killNow(process)));
}

export async function takeDown(folder: string): Promise<void> {
  const stack = loadStack(folder);
  if (stack !== undefined) await stopAll(nodesOf(stack));
}

/** Returns one line per node with its name, its pid, its port, and `up` or `down`. A node is up if it responds. */
export async function statusLines(folder: string): Promise<string[]> {
  const stack = loadStack(folder);
  if (stack === undefined) return [];
  return Promise.all(
    nodesOf(stack).map(async (node) => {
      const isRunning = isAlive(node.process);
      const isUp = isRunning && (await answers(node));
      return `${node.name} ${isRunning ? node.process?.pid : '-'} ${node.port} ${isUp ? 'up' : 'down'}`;
    }),
  );
}

async function formattedStack(folder: string, wanted: number | undefined, jars: Jars): Promise<Stack> {
  const previous = loadStack(folder);
  if (previous?.isFormatted) {
    const existing = previous.brokers.length;
    if (wanted === undefined || wanted === existing) return withClickHouse(folder, previous);
    throw new Error(
      `the cluster has ${existing === 1 ? 'one broker' : `${existing} brokers`}; to change this, run "down" and remove ${clusterFolder(folder)}`,
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

async function withClickHouse(folder: string, stack: Stack): Promise<Stack> {
  if (stack.clickhouse !== undefined) return stack;
  const [port = 0] = await freePorts(1);
  stack.clickhouse = newClickHouse(port);
  saveStack(folder, stack);
  return stack;
}

async function addS3(folder: string, stack: Stack, program: string): Promise<void> {
  if (stack.s3 !== undefined) return;
  const [port = 0] = await freePorts(1);
  stack.s3 = newS3(port, program);
  saveStack(folder, stack);
}

function existingStack(folder: string): Stack {
  const stack = loadStack(folder);
  if (!stack?.isFormatted) throw new Error(`there is no stack in ${folder}; run "up" first`);
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
