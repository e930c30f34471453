/** Tests `clickhouse-connect` in a virtual environment, as a data team installs it. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { pythonWith } from '../../../process/testing/pythonEnvironment.ts';
import { aClickHouse } from '../testing/aClickHouse.ts';

const run = promisify(execFile);
const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

const python = await pythonWith(here('../testing/requirements.txt'), 'clickhouse-connect');

test('clickhouse-connect inserts and reads with each supported compression', {
  timeout: 60_000,
}, async ({ skip }) => {
  if (python === undefined) return skip('there is no clickhouse-connect');
  await using it = await aClickHouse();
  const port = new URL(it.server.url).port;
  const { stdout } = await run(python, [here('../testing/pythonClient.py'), port, it.server.password]);
  for (const compress of ['False', 'zstd', 'gzip']) {
    expect(stdout).toContain(`${compress} insert 60000\n`);
    expect(stdout).toContain(`${compress} query_arrow, query_df, query\n`);
  }
  expect(stdout).toContain('lz4 is rejected, reads continue\n');
  expect(stdout).toContain('errors, commands, streams\n');
  expect(await it.number('SELECT count() FROM python')).toBe(61_500);
  expect(await it.number('SELECT sum(a) FROM python')).toBe((61_500 * 61_499) / 2);
});
