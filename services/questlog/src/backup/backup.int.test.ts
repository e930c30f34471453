/** Tests that only complete backups are restored. Tests that a failed backup leaves no folder that looks like a backup. */
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { startEngineProcess } from '@questlog/runtime/clickhouse/chdb/engineProcess';
import { openStore, type Store } from '@questlog/runtime/clickhouse/store';
import { createLogger } from '@questlog/runtime/process/logger';
import { expect, onTestFinished, test, vi } from 'vitest';
import { openDataDir } from '../dataDir.ts';
import { backupStatement, makeBackup } from './makeBackup.ts';
import { PARTS, writeManifest } from './manifest.ts';
import { restoreBackup } from './restore.ts';

const ABOUT = { id: 'an id', version: '0.1.0', startedAt: '2026-11-23T18:40:05.123Z' };
const { signal } = new AbortController();

function aFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-backup-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function aBackup(more: (folder: string) => void = () => {}): Promise<string> {
  const folder = aFolder();
  mkdirSync(join(folder, 'log'));
  writeFileSync(join(folder, PARTS.log), 'records');
  writeFileSync(join(folder, PARTS.clickhouse), 'rows');
  more(folder);
  await writeManifest(folder, { ...ABOUT, logId: 'a log', endedAt: ABOUT.startedAt }, signal);
  return folder;
}

/** Returns the error message of a rejected restore, and checks that the target is unchanged. */
async function refusal(folder: string, target = join(aFolder(), 'new')): Promise<string> {
  const before = JSON.stringify(names(target));
  const why = await restoreBackup(folder, target, createLogger('test')).then(
    () => 'it was restored',
    ({ message }: Error) => message,
  );
  expect(JSON.stringify(names(target))).toBe(before);
  return why;
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

test('rejects an incomplete or changed backup and names the wrong file', async () => {
  const unfinished = await aBackup();
  rmSync(join(unfinished, 'manifest.json'));
  expect(await refusal(unfinished)).toBe(`${unfinished} is not a complete backup: it has no manifest.json`);
  const changes: [RegExp, (folder: string) => void][] = [
    [
      /its manifest\.json is damaged$/,
      (folder) => writeFileSync(join(folder, 'manifest.json'), '{"format":1'),
    ],
    [/log\/questlog\.db is missing$/, (folder) => rmSync(join(folder, PARTS.log))],
    [
      /log\/questlog\.db has 3 bytes instead of 7$/,
      (folder) => writeFileSync(join(folder, PARTS.log), 'rec'),
    ],
    [/log\/questlog\.db has other content$/, (folder) => writeFileSync(join(folder, PARTS.log), 'recordz')],
    [/log\/more was added$/, (folder) => writeFileSync(join(folder, 'log', 'more'), '')],
  ];
  for (const [why, change] of changes) {
    const folder = await aBackup();
    change(folder);
    expect(await refusal(folder)).toMatch(why);
  }
});

test('restores only files of the backup, at their paths in it', async () => {
  const outside = join(aFolder(), 'outside');
  const link = (folder: string): void => {
    renameSync(join(folder, PARTS.log), outside);
    symlinkSync(outside, join(folder, PARTS.log));
  };
  const name = (change: (files: Record<string, unknown>) => void) => (folder: string) => {
    const manifest = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8'));
    change(manifest.files);
    writeFileSync(join(folder, 'manifest.json'), JSON.stringify(manifest));
  };
  const climb = (folder: string): void => {
    const path = `../${basename(folder)}/${PARTS.log}`;
    name((files) => Object.assign(files, { [path]: files[PARTS.log] }))(folder);
  };
  const empty = (folder: string): void => {
    for (const path of [PARTS.log, PARTS.clickhouse]) rmSync(join(folder, path));
    name((files) => Object.keys(files).forEach((path) => void delete files[path]))(folder);
  };
  for (const [why, change] of [
    [/\.\.\/.* is missing$/, climb],
    [/log\/questlog\.db is missing$/, link],
    [/its manifest\.json does not list log\/questlog\.db$/, empty],
  ] as const) {
    const folder = await aBackup();
    change(folder);
    expect(await refusal(folder)).toMatch(why);
  }
});

test.each([
  'clickhouse/clickhouse/metadata/own.sql',
  'log/questlog.db-wal',
  'unfinished-restore',
  'a.sh',
  'uploads',
])('rejects a manifest with a path that no backup contains before restoring any file: %s', async (path) => {
  const folder = await aBackup((unsealed) => {
    mkdirSync(dirname(join(unsealed, path)), { recursive: true });
    writeFileSync(join(unsealed, path), 'x');
  });
  expect(await refusal(folder)).toBe(`the backup ${folder} was changed: ${path} is not a file of a backup`);
});

test('rejects a backup with a newer format, and a target folder with other files than backups', async () => {
  const newer = await aBackup();
  const manifest = readFileSync(join(newer, 'manifest.json'), 'utf8');
  writeFileSync(join(newer, 'manifest.json'), manifest.replace('"format":1', '"format":2'));
  expect(await refusal(newer)).toMatch(
    /^a newer version of Questlog created the backup .* \(format 2; this version reads 1\)$/,
  );
  const full = aFolder();
  mkdirSync(join(full, 'backups'));
  mkdirSync(join(full, 'log'));
  expect(await refusal(await aBackup(), full)).toBe(
    `${full} is not empty (log): restore into an empty folder`,
  );
});

test('neither a start nor another restore accepts the folder of an interrupted restore', async () => {
  const target = join(aFolder(), 'new');
  // The tar file is invalid, so that ClickHouse reports an error.
  const folder = await aBackup();
  chmodSync(join(folder, PARTS.log), 0o644);
  await expect(restoreBackup(folder, target, createLogger('test'))).rejects.toThrow(
    `empty ${target} and restore again`,
  );
  expect(() => openDataDir(target, [])).toThrow(/a restore into .* was interrupted/);
  expect(statSync(join(target, PARTS.log)).mode & 0o777).toBe(0o600);
  expect(await refusal(folder, target)).toMatch(/is not empty/);
});

test('a failed backup reports its cause and leaves no files; the earlier backup stays', async () => {
  const into = aFolder();
  mkdirSync(join(into, 'an older one'));
  const dataDir = aFolder();
  const store: Pick<Store, 'command' | 'query' | 'database'> = {
    database: 'questlog',
    command: async () => {},
    query: async <Row>() => [{ status: 'BACKUP_FAILED', error: 'No space left on device' } as Row],
  };
  const log = { id: 'a log', copy: ({ beforeCopy }: { beforeCopy(): Promise<void> }) => beforeCopy() };
  const copied = { log, store, dataDir, credentialsPath: join(dataDir, 'dev-credentials.json') };
  const made = makeBackup(copied, ABOUT, into, signal);
  await expect(made).rejects.toThrow('BACKUP of ClickHouse: No space left on device');
  expect(readdirSync(into)).toEqual(['an older one']);
});

test('a backup that is stopped while a file is read gets no manifest', async () => {
  const folder = aFolder();
  writeFileSync(join(folder, 'file'), 'bytes');
  const stopping = new AbortController();
  vi.spyOn(stopping.signal, 'throwIfAborted').mockImplementationOnce(() => stopping.abort());
  const about = { ...ABOUT, logId: 'a log', endedAt: ABOUT.startedAt };
  await expect(writeManifest(folder, about, stopping.signal)).rejects.toThrow('aborted');
  expect(readdirSync(folder)).toEqual(['file']);
});

test('a backup that is stopped also stops ClickHouse, before its folder is deleted', async () => {
  const [directory, backups] = [aFolder(), aFolder()];
  const account = { username: 'test', password: 'test' };
  const engine = await startEngineProcess({ directory, ...account, backups }, createLogger('test'));
  onTestFinished(() => engine.close());
  const store = openStore({ url: engine.url, ...account, database: 'questlog' });
  onTestFinished(() => store.close());
  await store.command('CREATE TABLE questlog.t (s String CODEC(NONE)) ENGINE = MergeTree ORDER BY ()');
  await store.command('INSERT INTO questlog.t SELECT randomString(1000) FROM numbers(100000)');
  const stopping = new AbortController();
  const stopped = {
    ...{ database: 'questlog', command: (sql: string) => store.command(sql) },
    query: async <Row>(sql: string, params?: Record<string, unknown>) => {
      const rows = await store.query<Row>(sql, params);
      stopping.abort(new Error('stopping'));
      return rows;
    },
  };
  const made = backupStatement(stopped, 'BACKUP', join(backups, 'a.tar'), stopping.signal);
  await expect(made).rejects.toThrow();
  // On a fast machine, the backup can end before the test stops it.
  const ended = ['BACKUP_CANCELLED', 'BACKUP_CREATED'];
  const [{ status } = { status: '' }] = await store.query<{ status: string }>(
    'SELECT status FROM system.backups',
  );
  expect(ended).toContain(status);
});
