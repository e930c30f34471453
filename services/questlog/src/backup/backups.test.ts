/** Tests the list of backups in a folder that other deployments also use, and during a backup. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createLogger } from '@questlog/runtime/process/logger';
import { expect, onTestFinished, test, vi } from 'vitest';
import { openBackups } from './backups.ts';
import { PARTS, writeManifest } from './manifest.ts';

const { signal } = new AbortController();
const GIB_OF_BLOCKS = 2 ** 30 / 4096;
const folders = vi.hoisted(() => ({
  /** Function that runs after a folder was read. */
  afterRead: async (_path: string): Promise<void> => {},
  /** Simulated free bytes and total bytes of the disk. */
  disk: {},
}));

vi.mock('node:fs/promises', async (original) => {
  const real = await original<typeof import('node:fs/promises')>();
  const readdir = async (path: string, ...options: []) => {
    const names = await real.readdir(path, ...options);
    await folders.afterRead(path);
    return names;
  };
  const statfs = async (path: string) => ({ ...(await real.statfs(path)), ...folders.disk });
  return { ...real, readdir, statfs };
});

function aFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-backups-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function aBackup(into: string, name: string, about: { id: string; logId: string }): Promise<string> {
  const folder = join(into, name);
  mkdirSync(folder, { recursive: true });
  const at = '2026-11-23T18:40:05.123Z';
  await writeManifest(folder, { ...about, version: '0.1.0', startedAt: at, endedAt: at }, signal);
  return folder;
}

function backupsIn(into: string) {
  const dataDir = aFolder();
  const credentialsPath = join(dataDir, 'dev-credentials.json');
  writeFileSync(credentialsPath, '{}');
  const log = {
    id: 'ours',
    copy: async ({ path }: { path: string }) => writeFileSync(join(dirname(path), 'questlog.db'), ''),
  };
  const store = { database: 'questlog', command: async () => {}, query: async () => [] };
  const opened = openBackups({ log, store, dataDir, credentialsPath }, into, createLogger('test'));
  onTestFinished(() => opened.close());
  const operations = { GET: opened.handlers.listBackups, POST: opened.handlers.createBackup };
  // biome-ignore lint/suspicious/noExplicitAny: the test inspects an arbitrary response body.
  const ask = async (method: keyof typeof operations): Promise<any> =>
    await operations[method](undefined as never, undefined as never);
  return { ask, list: async () => (await ask('GET')).backups };
}

test('lists only finished backups of the own deployment', async () => {
  const into = aFolder();
  const folder = await aBackup(into, 'a', { id: 'of us', logId: 'ours' });
  await aBackup(into, 'b', { id: 'of others', logId: 'theirs' });
  await aBackup(into, '.questlog-unfinished-ours', { id: 'of none', logId: 'ours' });
  const { list } = backupsIn(into);
  expect(await list()).toMatchObject([{ id: 'of us', state: 'done', folder }]);
  rmSync(folder, { recursive: true });
  expect(await list()).toEqual([]);
});

test('a backup deletes its own unfinished folder but not the folder of another deployment', async () => {
  const into = aFolder();
  const theirs = ['.questlog-unfinished-theirs', 'unfinished'];
  for (const name of [...theirs, '.questlog-unfinished-ours'])
    mkdirSync(join(into, name, PARTS.uploads), { recursive: true });
  const { ask, list } = backupsIn(into);
  const { id } = await ask('POST');
  await expect.poll(list).toMatchObject([{ id, state: 'done' }]);
  expect(readdirSync(into).sort()).toEqual([theirs[0], expect.stringMatching(/^20/), theirs[1]]);
});

test('lists a backup that ends while the folder is read', async () => {
  const into = aFolder();
  const { ask, list } = backupsIn(into);
  const { id } = await ask('POST');
  folders.afterRead = async (path) => {
    if (path !== into) return;
    folders.afterRead = async () => {};
    await expect.poll(list).toMatchObject([{ state: 'done' }]);
  };
  expect(await list()).toMatchObject([{ id }]);
});

test('a backup leaves the free space below which Questlog warns', async () => {
  folders.disk = { bsize: 4096, blocks: 40 * GIB_OF_BLOCKS, bavail: GIB_OF_BLOCKS / 2 };
  onTestFinished(() => {
    folders.disk = {};
  });
  const { ask, list } = backupsIn(aFolder());
  await ask('POST');
  const problem = expect.stringMatching(/^a backup needs up to 1024 MiB .* only 512 MiB are free/);
  await expect.poll(list).toMatchObject([{ state: 'failed', problem }]);
});
