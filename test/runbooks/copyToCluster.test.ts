/** Runs `deploy/copyToCluster.sh` with a replaced `clickhouse-client`. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ROOT } from '../tidy/projectFiles.ts';
import { replaceCommands } from './followPage.ts';

test('the password of the old server is not in the arguments of a process', () => {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-copy-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const PATH = replaceCommands(folder, {
    'clickhouse-client': `echo "$@" >>${folder}/arguments; cat >>${folder}/statements`,
  });
  const OLD = { OLD: "'old:9000', 'questlog'", OLD_ACCOUNT: "'questlog', 'secret'" };
  execFileSync(join(ROOT, 'deploy/copyToCluster.sh'), ['truncations'], {
    env: { PATH, DATABASE: 'questlog', NODES: 'new-1 new-3', ...OLD },
  });

  expect(readFileSync(join(folder, 'arguments'), 'utf8')).toBe('--host new-1\n');
  expect(readFileSync(join(folder, 'statements'), 'utf8')).toMatch(
    /^INSERT INTO questlog\.truncations\n[\s\S]* FROM remote\('old:9000', 'questlog', 'truncations', 'questlog', 'secret'\) WHERE 1\n$/,
  );
});
