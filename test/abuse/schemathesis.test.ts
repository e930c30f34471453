/**
 * Runs Schemathesis with both OpenAPI documents: no 5xx, no response that the document does not describe, no accepted
 * request that violates the document, and no rejected request that conforms to it.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pythonWith } from '@questlog/runtime/process/testing/pythonEnvironment';
import { beforeAll, expect, test } from 'vitest';
import { ownProduct } from '../e2e/sharedProduct.ts';
import { isLong, recordFigure } from './figures.ts';

const FOLDER = fileURLToPath(new URL('./schemathesis', import.meta.url));
const EXAMPLES = isLong ? 1_000 : 10;
/** Time limit in seconds, after which the run is interrupted and reports its findings. The long form needs most of an hour. */
const WITHIN_S = isLong ? 75 * 60 : 540;
const TOLD_WITHIN_S = 60;

/** Revision B accepts the requests of both revisions, except for the number of events. */
const shared = ownProduct({ env: { QUESTLOG_REVISION: 'B' } });
let python: string | undefined;

beforeAll(async () => {
  python = await pythonWith(`${FOLDER}/requirements.txt`, 'the OpenAPI documents with Schemathesis');
}, WITHIN_S * 1_000);

test.each([
  // Excludes streams, because they do not end.
  ['games', 'baseUrl', 'token', '/v1/linked-events'],
  ['operators', 'adminUrl', 'adminToken', '/admin/tail'],
] as const)(
  'the listener for %s conforms to its document',
  async (listener, url, token, without) => {
    if (python === undefined) return;
    const { credentials } = shared.product;
    const { code, output } = await run(python, [
      ...['-m', 'schemathesis.cli', '--config-file', `${FOLDER}/schemathesis.toml`, 'run'],
      ...[`${credentials[url]}/openapi.json`, '-H', `Authorization: Bearer ${credentials[token]}`],
      ...['--exclude-path', without, '-n', String(EXAMPLES)],
      // The short form has a fixed seed, the long form a random seed.
      ...(isLong ? [] : ['--seed', '1']),
      ...['--continue-on-failure', '--no-shrink', '--generation-database', 'none', '--no-color'],
      ...['--suppress-health-check', 'all', '--warnings', 'off', '--request-timeout', '30'],
    ]);
    const cases = /(\d+) generated/.exec(output)?.[1] ?? '0';
    // Number of calls that used ids from earlier responses.
    const links = /API Links: +(\d+) covered/.exec(output)?.[1] ?? '0';
    expect(code, output.slice(0, 20_000)).toBe(0);
    expect(Number(cases)).toBeGreaterThan(100);
    expect(Number(links)).toBeGreaterThan(0);
    recordFigure(`Schemathesis on the OpenAPI document for ${listener}`, {
      tried: `${cases} requests, ${EXAMPLES} examples per operation, ${links} links`,
      held: 'no 5xx, all answers documented',
    });
  },
  (WITHIN_S + TOLD_WITHIN_S) * 1_000,
);

async function run(
  python: string,
  args: readonly string[],
): Promise<{ code: number | null; output: string }> {
  // Schemathesis writes its cache to the working directory.
  const cwd = mkdtempSync(join(tmpdir(), 'questlog-schemathesis-'));
  const env = {
    ...process.env,
    PYTHONPATH: FOLDER,
    PYTHONDONTWRITEBYTECODE: '1',
    SCHEMATHESIS_HOOKS: 'hooks',
  };
  const child = spawn(python, args, { cwd, env, timeout: WITHIN_S * 1_000, killSignal: 'SIGINT' });
  let output = '';
  for (const pipe of [child.stdout, child.stderr]) pipe.on('data', (chunk) => (output += chunk));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  rmSync(cwd, { recursive: true });
  return { code, output };
}
