/** Starts a broker as a process. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { createServer } from 'node:net';
import { bytesOfUuid } from '@questlog/schemas/uuid';

/**
 * Shell command that kills Java when the pipe to this process closes. An interrupted test run therefore leaves no broker
 * behind.
 */
const WATCHED = 'exec 3<&0; (cat <&3 >/dev/null; kill -9 $$) & exec java "$@" 3<&- </dev/null';

/**
 * Starts Java.
 * @param output the file to which the output of the process is appended.
 */
export function startProcess(args: readonly string[], output: string): ChildProcess {
  const file = openSync(output, 'a');
  const child = spawn('sh', ['-c', WATCHED, 'sh', ...args], { stdio: ['pipe', file, file] });
  closeSync(file);
  return child;
}

export async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.stdin?.end();
  await exit;
}

/**
 * Returns free ports. They are below Linux's range of outgoing ports, so that no connection uses them before the broker starts.
 */
export async function freePorts(count: number): Promise<number[]> {
  const chosen = new Set<number>();
  while (chosen.size < count) {
    const port = randomInt(20_000, 32_000);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (isFree) chosen.add(port);
    server.close();
  }
  return [...chosen];
}

export function localAddress(port: number): string {
  return `127.0.0.1:${port}`;
}

/** Returns 16 bytes in base64url without padding. The text does not start with a dash, because Kafka does not allow that. */
export function clusterId(): string {
  return `q${bytesOfUuid(randomUUID()).toString('base64url').slice(1)}`;
}
