/** Starts and stops the nodes of a stack. */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brokerArguments } from './brokerSetup.ts';
import { isFree } from './freePorts.ts';
import type { Jars } from './jars.ts';
import { isAlive, type Launch, startDetached, stop } from './ownProcess.ts';
import { answers, brokersKnownTo } from './probes.ts';
import { s3Arguments, s3Environment } from './s3/s3Server.ts';
import { CLICKHOUSE_ARGUMENTS, clickhouseEnvironment, registryArguments } from './serviceSetup.ts';
import { type Node, type Stack, saveStack } from './stackState.ts';
import { waitUntil } from './waitUntil.ts';

/** Time limit for the start of all nodes. Three brokers and the registry need 10 s on two idle cores, longer on busy cores. */
const READY_TIMEOUT_MS = 180_000;
const STOP_TIMEOUT_MS = 10_000;
const LAST_LINES = 10;

/** Starts the nodes that do not run. Waits until all nodes respond. After a failure, stops the nodes that this call started. */
export async function startAll(
  folder: string,
  stack: Stack,
  jars: Jars,
  nodes: readonly Node[],
): Promise<void> {
  const started = nodes.filter(({ process }) => !isAlive(process));
  try {
    for (const node of started) await start(folder, stack, jars, node);
    await waitUntil(() => areReady(folder, stack, nodes), {
      timeoutMs: READY_TIMEOUT_MS,
      what: `${nodes.map(({ name }) => name).join(', ')} to answer; see the logs in ${logFolder(folder)}`,
    });
  } catch (error) {
    await stopAll(started);
    throw error;
  }
}

/** Sends SIGTERM to each running node, and SIGKILL after 10 s. Returns when the nodes have ended. */
export async function stopAll(nodes: readonly Node[]): Promise<void> {
  await Promise.all(
    nodes.map(async ({ process }) => (isAlive(process) ? stop(process, STOP_TIMEOUT_MS) : undefined)),
  );
}

async function start(folder: string, stack: Stack, jars: Jars, node: Node): Promise<void> {
  const ports = node.kind === 'broker' ? [node.port, node.controllerPort] : [node.port];
  for (const port of ports) {
    if (!(await isFree(port))) throw new Error(`port ${port} of ${node.name} is in use by another process`);
  }
  mkdirSync(logFolder(folder), { recursive: true });
  const started = startDetached(launchOf(folder, node, jars), logPath(folder, node));
  node.process = await started.catch((cause: Error) => {
    throw new Error(`${node.name} did not start: ${cause.message}; see ${logPath(folder, node)}`, { cause });
  });
  saveStack(folder, stack);
}

function launchOf(folder: string, node: Node, jars: Jars): Launch {
  switch (node.kind) {
    case 'broker':
      return { command: jars.java, args: brokerArguments(folder, node, jars) };
    case 'registry':
      return { command: jars.java, args: registryArguments(folder, node, jars) };
    case 'clickhouse':
      return {
        command: process.execPath,
        args: CLICKHOUSE_ARGUMENTS,
        env: clickhouseEnvironment(folder, node),
      };
    case 's3':
      return { command: node.program, args: s3Arguments(folder, node), env: s3Environment(node) };
  }
}

/** Returns true if all nodes respond and each broker lists all brokers, so that clients can connect to any broker. */
async function areReady(folder: string, stack: Stack, nodes: readonly Node[]): Promise<boolean> {
  for (const node of nodes) {
    if (!isAlive(node.process)) throw new Error(exitMessage(folder, node));
  }
  const answered = await Promise.all(nodes.map(answers));
  return answered.every(Boolean) && (await brokersSeeEachOther(stack));
}

async function brokersSeeEachOther({ brokers }: Stack): Promise<boolean> {
  const running = brokers.filter(({ process }) => isAlive(process));
  const known = await Promise.all(running.map(({ port }) => brokersKnownTo(port)));
  return known.every((ids) => running.every(({ id }) => ids.includes(id)));
}

/** Returns an error message that contains the last lines of the node's log, because a test deletes the log file at the end. */
function exitMessage(folder: string, node: Node): string {
  const path = logPath(folder, node);
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  // Omits the frames of a Java stack trace, because they would hide the exception.
  const lastLines = lines.filter((line) => !/^\s+at /.test(line)).slice(-LAST_LINES);
  return [`${node.name} has ended; see ${path}, which ends with`, ...lastLines].join('\n  ');
}

function logPath(folder: string, { name }: Node): string {
  return join(logFolder(folder), `${name}.log`);
}

function logFolder(folder: string): string {
  return join(folder, 'logs');
}
