/** Creates and caches Python virtual environments for tests with third-party tools. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { messageOf } from '../errors.ts';
import { failIfRequired } from './required.ts';

const run = promisify(execFile);
const CACHE = fileURLToPath(new URL('../../../../../node_modules/.cache', import.meta.url));

/**
 * Returns the path of a Python interpreter with the required packages.
 * @param what the tested subject, for the message about skipped tests.
 * @returns undefined if the packages cannot be installed. The reason is printed.
 * @throws an error instead of returning undefined if `QUESTLOG_REQUIRE` contains `python`.
 */
export async function pythonWith(requirements: string, what: string): Promise<string | undefined> {
  try {
    return await prepare(requirements);
  } catch (error) {
    const reason = messageOf(error).split('\n').slice(0, 3).join(' ');
    failIfRequired('python', reason, { cause: error });
    console.warn(`skipped: ${what} cannot be tried here: ${reason}`);
    return undefined;
  }
}

async function prepare(requirements: string): Promise<string> {
  const text = await readFile(requirements);
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 12);
  const directory = join(CACHE, `questlog-python-${digest}`);
  const interpreter = join(directory, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python');
  const finished = join(directory, 'finished');
  const isThere = await access(finished).then(
    () => true,
    () => false,
  );
  if (isThere) return interpreter;
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  await run('python3', ['-m', 'venv', directory]);
  const install = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-r', requirements];
  await run(interpreter, install);
  await writeFile(finished, '');
  return interpreter;
}
