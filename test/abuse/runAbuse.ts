/**
 * `npm run test:abuse`: the abuse suite in its long form, with the other tests of malformed input beside it, and the page
 * of what it found. `--short` takes the form of `npm run test:all`; paths run those files alone, and write no page.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BESIDE, type Ground, SECURITY_FIGURES, SECURITY_PAGE, securityPage } from './securityPage.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const isShort = process.argv.includes('--short');
const paths = process.argv.slice(2).filter((argument) => argument !== '--short');

const folder = mkdtempSync(join(tmpdir(), 'questlog-abuse-'));
const file = join(folder, 'figures.jsonl');
const ground: Ground = {
  form: isShort ? 'short' : 'long',
  at: new Date().toISOString(),
  cpus: availableParallelism(),
  node: process.versions.node,
};
writeFileSync(file, `${JSON.stringify(ground)}\n`);
const all = ['test/abuse', ...BESIDE.map(([path]) => path)];
const projects = ['abuse', 'fast', 'e2e'].flatMap((name) => ['--project', name]);
const { status } = spawnSync(
  'npm',
  ['run', '-s', 'vitest', '--', ...projects, ...(paths.length > 0 ? paths : all)],
  {
    cwd: ROOT,
    stdio: 'inherit',
    shell: process.platform === 'win32',
    env: {
      ...process.env,
      QUESTLOG_ABUSE_FIGURES: file,
      ...(isShort ? {} : { QUESTLOG_TEST_RUNS: 'long' }),
    },
  },
);
if (status === 0 && paths.length === 0) {
  writeFileSync(join(ROOT, SECURITY_FIGURES), readFileSync(file));
  writeFileSync(join(ROOT, SECURITY_PAGE), securityPage());
  process.stdout.write(`${SECURITY_PAGE}\n`);
}
rmSync(folder, { recursive: true });
process.exitCode = status ?? 1;
