/** Linux's figures of another process: its memory now and at its highest, and its CPU time; and of this one's heap. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

export interface Memory {
  readonly rssBytes: number;
  /** Of it what is no part of a file: programs and libraries are read again where the system has taken their memory back. */
  readonly ownBytes: number;
  /** The highest since the process started. */
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

/** User and system time in microseconds. */
export function cpuMicrosOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The second field is the command in parentheses and may hold blanks; utime and stime are the 14th and 15th.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return ((Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND) * 1e6;
}

const TICKS_PER_SECOND = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

export interface MemorySampler {
  /** The highest resident set seen since the last call. */
  highestSinceAsked(): number;
  stop(): void;
}

const SAMPLE_MS = 100;

export function sampleMemory(pid: number): MemorySampler {
  let highest = 0;
  const look = (): void => {
    try {
      highest = Math.max(highest, memoryOf(pid).rssBytes);
    } catch {
      // A process that ends has no memory any more. Whoever asks it for something is told.
    }
  };
  const timer = setInterval(look, SAMPLE_MS);
  return {
    highestSinceAsked: () => {
      look();
      const seen = highest;
      highest = 0;
      return seen;
    },
    stop: () => clearInterval(timer),
  };
}

function bytesOf(status: string, name: string): number {
  const match = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status);
  if (match === null) throw new Error(`/proc/<pid>/status has no ${name}`);
  return Number(match[1]) * 1024;
}

/** Bytes that this process holds, without what can be collected. It must have been started with `--expose-gc`. */
export async function usedBytes(): Promise<number> {
  if (globalThis.gc === undefined) throw new Error('start it with --expose-gc');
  // Waits a turn of the event loop: until then the caller's stack still holds the previous state.
  for (let i = 0; i < 3; i++) {
    await new Promise((resolve) => setImmediate(resolve));
    globalThis.gc();
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
