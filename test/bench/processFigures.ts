/** Reads Linux's figures of a process (memory, peak memory, and CPU time). */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

export interface Memory {
  readonly rssBytes: number;
  /** Anonymous memory in bytes, without pages of files, which the system can read again. */
  readonly ownBytes: number;
  /** Peak of the resident set since the start of the process or the last `resetPeak`. */
  readonly peakBytes: number;
}

export function memoryOf(pid: number): Memory {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return {
    rssBytes: bytesOf(status, 'VmRSS'),
    ownBytes: bytesOf(status, 'RssAnon'),
    peakBytes: bytesOf(status, 'VmHWM'),
  };
}

export function resetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

/** User and system time in microseconds. */
export function cpuMicrosOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The second field is the command in parentheses and may contain blanks; utime and stime are fields 14 and 15.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return ((Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND) * 1e6;
}

/** CPU time of the running threads in microseconds. More precise than `cpuMicrosOf`, whose unit is 10 ms. */
export function threadMicrosOf(pid: number): number {
  const tasks = readdirSync(`/proc/${pid}/task`);
  const nanos = tasks.map(
    (task) => readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0],
  );
  return nanos.reduce((sum, of) => sum + Number(of), 0) / 1_000;
}

const TICKS_PER_SECOND = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

function bytesOf(status: string, name: string): number {
  const match = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status);
  if (match === null) throw new Error(`/proc/<pid>/status has no ${name}`);
  return Number(match[1]) * 1024;
}
