/** Detached processes that later commands recognise, and never confuse with another one of the same pid. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { waitUntil } from './waitUntil.ts';

export interface OwnProcess {
  readonly pid: number;
  /** Ticks from boot to its start (field 22 of /proc/<pid>/stat): another process may have the pid by now. */
  readonly startTicks: string;
}

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  /** Variables added to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
}

/**
 * Starts a process that outlives this one; both of its outputs are appended to the log.
 *
 * @throws when there is no such command, or the process ends at once.
 */
export async function startDetached({ command, args, env }: Launch, logPath: string): Promise<OwnProcess> {
  const log = openSync(logPath, 'a');
  try {
    const child = spawn(command, args, {
      detached: true,
      stdio: ['ignore', log, log],
      env: { ...process.env, ...env },
      // A crashing JVM writes its dump beside its log, and holds no other folder.
      cwd: dirname(logPath),
    });
    await once(child, 'spawn');
    child.unref();
    return identityOf(child.pid ?? 0);
  } finally {
    closeSync(log);
  }
}

/** @throws when there is no such process. */
export function identityOf(pid: number): OwnProcess {
  const stat = statOf(pid);
  if (stat === undefined) throw new Error(`process ${pid} ended at once`);
  return { pid, startTicks: stat.startTicks };
}

/** A zombie is not alive, although a signal to it succeeds. */
export function isAlive(process: OwnProcess | undefined): process is OwnProcess {
  const stat = process === undefined ? undefined : statOf(process.pid);
  return stat !== undefined && stat.startTicks === process?.startTicks && !/[ZX]/.test(stat.state);
}

/** Sends SIGKILL and waits until the process is gone. */
export async function killNow(own: OwnProcess): Promise<void> {
  signal(own, 'SIGKILL');
  await waitUntil(async () => !isAlive(own), { timeoutMs: 10_000, what: `process ${own.pid} to be gone` });
}

/** Sends SIGTERM, and SIGKILL after `patienceMs`; waits until the process is gone. */
export async function stop(own: OwnProcess, timeoutMs: number): Promise<void> {
  signal(own, 'SIGTERM');
  const gone = waitUntil(async () => !isAlive(own), { timeoutMs: timeoutMs, what: 'its end' });
  await gone.catch(() => killNow(own));
}

function signal(own: OwnProcess, name: 'SIGTERM' | 'SIGKILL'): void {
  if (!isAlive(own)) return;
  try {
    process.kill(own.pid, name);
  } catch (error) {
    // It may have ended between the check and the signal.
    if (isAlive(own)) throw error;
  }
}

function statOf(pid: number): { state: string; startTicks: string } | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  // The name in parentheses may hold spaces and parentheses; the state, field 3, is the first after it.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0] ?? '', startTicks: fields[22 - 3] ?? '' };
}
