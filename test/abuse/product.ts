/** Reads the memory of the product's main process. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const MIB = 1024 * 1024;

/** Returns a function that returns the peak memory of the process since this call, in MiB; 0 if the system does not provide it. */
export function watchPeak(pid: number): () => number {
  if (process.platform !== 'linux') return () => 0;
  // Resets the peak (proc_pid_clear_refs(5)).
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
  return () => Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}

/** Returns the memory of the process in MiB. Undefined if the system does not provide it. */
export function memoryMib(pid: number): number | undefined {
  if (process.platform !== 'linux') return undefined;
  const pages = Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]);
  return (pages * Number(execFileSync('getconf', ['PAGESIZE']))) / MIB;
}
