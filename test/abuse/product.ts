/** What the abuse suite looks at beside the answers: the memory of the product, and what its processes wrote. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const MIB = 1024 * 1024;

/** Of the process that games speak to, in MiB; undefined where the system does not tell. */
export function memoryMib(pid: number): number | undefined {
  if (process.platform !== 'linux') return undefined;
  const pages = Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]);
  return (pages * Number(execFileSync('getconf', ['PAGESIZE']))) / MIB;
}
