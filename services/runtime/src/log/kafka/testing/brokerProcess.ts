/** One broker as a process, for suites that need one of their own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { createServer } from 'node:net';

/**
 * Java, which is killed when this process closes the pipe, or ends in whatever way: a test run that is cut off leaves no
 * broker behind.
 */
const WATCHED = 'exec 3<&0; (cat <&3 >/dev/null; kill -9 $$) & exec java "$@" 3<&- </dev/null';

/** @param output a file that what it writes is added to. */
export function startProcess(args: readonly string[], output: string): ChildProcess {
  const file = openSync(output, 'a');
  const child = spawn('sh', ['-c', WATCHED, 'sh', ...args], { stdio: ['pipe', file, file] });
  closeSync(file);
  return child;
}

/** Kills it. */
export async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.stdin?.end();
  await exit;
}

/** Free as they are chosen, and below Linux's range of outgoing connections, one of which could take a port meanwhile. */
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

/** 16 bytes in base64 for URLs, without padding; Kafka wants no dash in front. */
export function clusterId(): string {
  return `q${Buffer.from(randomUUID().replaceAll('-', ''), 'hex').toString('base64url').slice(1)}`;
}
