import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { leaksIn } from './tokensInLogs.ts';

test('reports a token in a log with file and line, except the demo token in a banner', () => {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-leaks-'));
  const [demo, made] = ['qlt_of-the-demo-1234', 'qlt_made-by-a-test-1'];
  const write = (file: string, text: string) => writeFileSync(join(folder, file), text);
  write('tokens', `${demo}\nshown ${demo}\n${made}\n`);
  write('standalone-1.stdout', `ready\ncurl -H 'Authorization: Bearer ${demo}'\n`);
  write('standalone-1.stderr', '{"event":"request_failed"}\n');
  expect(leaksIn(folder)).toEqual([]);

  write('ingest-2.stdout', `ready\n\n${made}\n`);
  write('ingest-2.stderr', `{}\n{"token":"${demo}"}\n{"url":"/v1?token=${made}"}\n`);
  expect(leaksIn(folder)).toEqual(
    ['ingest-2.stderr:2', 'ingest-2.stderr:3', 'ingest-2.stdout:3'].map((line) => join(folder, line)),
  );
  rmSync(folder, { recursive: true });
});
