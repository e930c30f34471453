/** Starts background processes, and identifies each process by its pid and start time. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { waitUntil } from './waitUntil.ts';

export interface OwnProcess {
  readonly pid: number;
  /** Start time of the process in ticks since boot (/proc/<pid>/stat, field 22). Distinguishes processes with the same pid. */
  readonly startTicks: string;
}

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  /** Environment variables that the new process gets in addition to the variables of the current process. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts a process that outlives the current process, and appends its output to the log. @throws if the start fails. */
export async function startDetached({ command, args, env }: Launch, logPath: string): Promise<OwnProcess> {
  const log = openSync(logPath, 'a');
  try {
    const child = spawn(command, args, {
      detached: true,
      stdio: ['ignore', log, log],
      env: { ...process.env, ...env },
      // Runs the process in the folder of the log file, because the JVM writes crash dumps into its working folder.
      cwd: dirname(logPath),
    });
    await once(child, 'spawn');
    child.unref();
    return identityOf(child.pid ?? 0);
  } finally {
    closeSync(log);
  }
}

/** Returns the pid and the start time of a process. @throws if the process does not exist. */
export function identityOf(pid: number): OwnProcess {
  const stat = statOf(pid);
  if (stat === undefined) throw new Error(`process ${pid} ended directly after its start`);
  return { pid, startTicks: stat.startTicks };
}

/** Returns true if the process is running. A zombie does not count as running, although it accepts signals. */
export function isAlive(process: OwnProcess | undefined): process is OwnProcess {
  const stat = process === undefined ? undefined : statOf(process.pid);
  return stat !== undefined && stat.startTicks === process?.startTicks && !/[ZX]/.test(stat.state);
}

export async function killNow(own: OwnProcess): Promise<void> {
  signal(own, 'SIGKILL');
  await waitUntil(async () => !isAlive(own), { timeoutMs: 10_000, what: `process ${own.pid} to be gone` });
}

/** Sends SIGTERM to a process, and SIGKILL after `timeoutMs`. Waits until the process has ended. */
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
  // In /proc/<pid>/stat, the name of the process is in parentheses and can contain spaces. The state (field 3) follows.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0] ?? '', startTicks: fields[22 - 3] ?? '' };
}
