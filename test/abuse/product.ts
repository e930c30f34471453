/** What the abuse suite looks at beside the answers: the memory of the product, and what its processes wrote. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const MIB = 1024 * 1024;

/** @returns what tells the highest memory since, of the process that games speak to, in MiB; 0 where the system does not tell. */
export function watchPeak(pid: number): () => number {
  if (process.platform !== 'linux') return () => 0;
  // From now on the highest is that since now (proc_pid_clear_refs(5)).
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
  return () => Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}

/** Of the process that games speak to, in MiB; undefined where the system does not tell. */
export function memoryMib(pid: number): number | undefined {
  if (process.platform !== 'linux') return undefined;
  const pages = Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]);
  return (pages * Number(execFileSync('getconf', ['PAGESIZE']))) / MIB;
}
