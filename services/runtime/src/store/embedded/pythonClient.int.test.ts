/** `clickhouse-connect` as a data team installs it, from a virtual environment that this test makes once. */

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { messageOf } from '../../process/errors.ts';
import { aClickHouse } from './embeddedClickHouse.testing.ts';

const run = promisify(execFile);
const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

const isRequired = process.env['QUESTLOG_REQUIRE']?.includes('python') ?? false;
const python = await preparePython().catch((error: unknown) => {
  const reason = messageOf(error).split('\n').slice(0, 3).join(' ');
  if (isRequired) throw new Error(`QUESTLOG_REQUIRE asks for python, but: ${reason}`, { cause: error });
  console.warn(`skipped: clickhouse-connect cannot be tried here: ${reason}`);
  return undefined;
});

test.skipIf(python === undefined)(
  'clickhouse-connect inserts and reads what it should, with every compression',
  { timeout: 60_000 },
  async () => {
    if (python === undefined) return;
    await using it = await aClickHouse();
    const port = new URL(it.server.url).port;
    const { stdout } = await run(python, [here('./pythonClient.py'), port, it.server.password]);
    for (const compress of ['False', 'lz4', 'zstd', 'gzip', 'True']) {
      expect(stdout).toContain(`${compress} insert 60000\n`);
      expect(stdout).toContain(`${compress} query_arrow, query_df, query\n`);
    }
    expect(stdout).toContain('errors, commands, streams\n');
    expect(await it.number('SELECT count() FROM python')).toBe(61_500);
    expect(await it.number('SELECT sum(a) FROM python')).toBe((61_500 * 61_499) / 2);
  },
);

/** The interpreter of the environment with what `requirements.txt` names; made when it is not there. */
async function preparePython(): Promise<string> {
  const requirements = here('./requirements.txt');
  const digest = createHash('sha256')
    .update(await readFile(requirements))
    .digest('hex')
    .slice(0, 12);
  const directory = here(`../../../../../node_modules/.cache/questlog-python-${digest}`);
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
  await run(interpreter, [
    '-m',
    'pip',
    'install',
    '--quiet',
    '--disable-pip-version-check',
    '-r',
    requirements,
  ]);
  await writeFile(finished, '');
  return interpreter;
}
