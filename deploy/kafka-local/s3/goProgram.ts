/** Builds a program from a Go module. */
import { spawnSync } from 'node:child_process';
import { existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { withLock } from '../lock.ts';

/** Disables compiler optimizations, because a third of the build time of the S3 server would go into optimizations. */
const QUICK_BUILD = ['-gcflags=all=-N -l', '-ldflags=-s -w'];

/**
 * Returns the path of the executable in the folder. Builds the executable if it is missing.
 * @param target the package and its version, for example `example.com/cmd/tool@v1.2.3`
 * @throws Error if Go is missing or cannot build the program.
 */
export async function goProgram(folder: string, target: string): Promise<string> {
  const name = /(?<name>[^/]+)@/.exec(target)?.groups?.['name'] ?? '';
  const program = join(folder, name);
  if (existsSync(program)) return program;
  await withLock(folder, async () => {
    if (!existsSync(program)) build(folder, target, name);
  });
  return program;
}

function build(folder: string, target: string, name: string): void {
  if (spawnSync('go', ['version']).error !== undefined) {
    throw new Error(`Go is needed to build ${name}, but go is not on the PATH`);
  }
  process.stderr.write(`stack: building ${name} with Go, once\n`);
  const unfinished = `${folder}.unfinished`;
  rmSync(unfinished, { recursive: true, force: true });
  const { status, stderr } = spawnSync('go', ['install', ...QUICK_BUILD, target], {
    encoding: 'utf8',
    env: { ...process.env, GOBIN: unfinished },
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status !== 0) throw new Error(`Go could not build ${name}: ${stderr.trim().split('\n').at(-1)}`);
  rmSync(folder, { recursive: true, force: true });
  renameSync(unfinished, folder);
}
