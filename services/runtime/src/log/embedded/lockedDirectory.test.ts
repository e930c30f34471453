/**
 * Only one process at a time can use the directory. The next process can use the directory after the previous process ended in
 * any way.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { StartRefused } from '../../process/errors.ts';
import { openDatabase } from './database.ts';
import { openEmbeddedLog } from './embeddedLog.ts';
import { aDirectory, aLog, ManualClock } from './testing/testLog.ts';

const clock = new ManualClock();

it('rejects a directory that this process has open until the log is closed', async () => {
  const directory = aDirectory();
  const log = await aLog({ directory });
  const second = openEmbeddedLog({ directory, clock });
  await expect(second).rejects.toEqual(
    new StartRefused(`the log directory ${directory} is in use by another process`),
  );
  await log.close();
  expect((await aLog({ directory })).id).toBe(log.id);
});

it('rejects a directory that another process has open and opens it after that process was killed', async () => {
  const directory = aDirectory();
  const member = spawn(
    process.execPath,
    [fileURLToPath(new URL('./testing/killWriter.ts', import.meta.url)), directory, '0'],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  onTestFinished(() => void member.kill('SIGKILL'));
  await once(member.stdout, 'data');
  await expect(openEmbeddedLog({ directory, clock })).rejects.toBeInstanceOf(StartRefused);
  const exited = once(member, 'exit');
  member.kill('SIGKILL');
  await exited;
  const log = await aLog({ directory });
  expect((await log.endOffsets('kill'))[0]).toBeGreaterThan(0);
});

it('rejects a path that is not a directory, not a log, or a log of a later version', async () => {
  const directory = aDirectory();
  const file = join(directory, 'file');
  writeFileSync(file, '');
  await expect(openEmbeddedLog({ directory: file, clock })).rejects.toBeInstanceOf(StartRefused);

  const other = aDirectory();
  writeFileSync(join(other, 'questlog.db'), 'not a database'.repeat(1000));
  await expect(openEmbeddedLog({ directory: other, clock })).rejects.toBeInstanceOf(StartRefused);

  const later = aDirectory();
  const database = openDatabase(later);
  database.sqlite.exec('PRAGMA user_version = 99');
  database.close();
  await expect(openEmbeddedLog({ directory: later, clock })).rejects.toThrow('format 99');
});
