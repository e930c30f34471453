/** The folder of everything that Questlog keeps on this machine. */
import { mkdirSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { messageOf, StartRefused } from '@questlog/runtime/process/errors';

/** @throws StartRefused when it cannot be made or holds something else. */
export function openDataDir(setting: string): string {
  const dataDir = resolve(setting);
  try {
    makeFolder(join(dataDir, 'log'));
    makeFolder(join(dataDir, 'clickhouse'));
  } catch (cause) {
    throw new StartRefused(`QUESTLOG_DATA_DIR: ${dataDir} cannot be written: ${messageOf(cause)}`, { cause });
  }
  return dataDir;
}

/**
 * With its parents. Node's own `recursive` never returns where a folder that exists answers ENOENT for its children, as
 * `/proc` does, and on a read-only disk it names the wrong cause.
 */
function makeFolder(path: string): void {
  const first = failureOf(path);
  if (first === undefined) return;
  if (codeOf(first) === 'ENOENT' && dirname(path) !== path) {
    makeFolder(dirname(path));
    const second = failureOf(path);
    if (second !== undefined) throw second;
  } else if (codeOf(first) !== 'EEXIST' || !statSync(path).isDirectory()) {
    throw first;
  }
}

function failureOf(path: string): unknown {
  try {
    mkdirSync(path);
    return undefined;
  } catch (error) {
    return error;
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
