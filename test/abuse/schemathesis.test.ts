/**
 * Schemathesis over both OpenAPI documents: no 5xx, no answer that the document does not know, nothing taken that it
 * refuses and nothing refused that it takes.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pythonWith } from '@questlog/runtime/process/testing/pythonEnvironment';
import { beforeAll, expect, test } from 'vitest';
import { ownProduct } from '../e2e/sharedProduct.ts';
import { isLong, tell } from './figures.ts';

const FOLDER = fileURLToPath(new URL('./schemathesis', import.meta.url));
const EXAMPLES = isLong ? 1_000 : 10;
/** Seconds; a thousand examples of forty operations take most of an hour. Then it is interrupted, and says what it has found. */
const WITHIN_S = isLong ? 75 * 60 : 540;
const TOLD_WITHIN_S = 60;

/** Revision B takes what either says, but for the number of events. */
const shared = ownProduct({ env: { QUESTLOG_REVISION: 'B' } });
let python: string | undefined;

beforeAll(async () => {
  python = await pythonWith(`${FOLDER}/requirements.txt`, 'the OpenAPI documents with Schemathesis');
}, WITHIN_S * 1_000);

test.each([
  // Streams do not end.
  ['games', 'baseUrl', 'token', '/v1/linked-events'],
  ['operators', 'adminUrl', 'adminToken', '/admin/tail'],
] as const)(
  'the document of the listener of %s says what it does',
  async (listener, url, token, without) => {
    if (python === undefined) return;
    const { credentials } = shared.product;
    const { code, output } = await run(python, [
      ...['-m', 'schemathesis.cli', '--config-file', `${FOLDER}/schemathesis.toml`, 'run'],
      ...[`${credentials[url]}/openapi.json`, '-H', `Authorization: Bearer ${credentials[token]}`],
      ...['--exclude-path', without, '-n', String(EXAMPLES)],
      // The short form tries the same each time; the long one draws.
      ...(isLong ? [] : ['--seed', '1']),
      ...['--continue-on-failure', '--no-shrink', '--generation-database', 'none', '--no-color'],
      ...['--suppress-health-check', 'all', '--warnings', 'off', '--request-timeout', '30'],
    ]);
    const cases = /(\d+) generated/.exec(output)?.[1] ?? '0';
    // From one operation to the next, by the ids that it was answered.
    const links = /API Links: +(\d+) covered/.exec(output)?.[1] ?? '0';
    expect(code, output.slice(0, 20_000)).toBe(0);
    expect(Number(cases)).toBeGreaterThan(100);
    expect(Number(links)).toBeGreaterThan(0);
    tell(`Schemathesis on the OpenAPI document for ${listener}`, {
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
  // It leaves what it has learned where it runs.
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
