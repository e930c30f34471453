/** Lists and starts backups. The folder of backups is a setting, so that a client cannot choose another folder. */
import { randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Handlers } from '@questlog/runtime/http/routes';
import { messageOf } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import type { Backup } from '@questlog/schemas/backups/backup';
import type { BACKUPS } from '@questlog/schemas/http/operations/jobs';
import { type BackupSource, type FinishedBackup, makeBackup } from './makeBackup.ts';
import { bytesOf, readManifest } from './manifest.ts';

export interface OpenBackups {
  readonly handlers: Handlers<typeof BACKUPS>;
  close(): Promise<void>;
}

const MAX_LISTED = 100;
const MAX_FAILURES = 10;

/** @param folder the folder that contains the backups */
export function openBackups(source: BackupSource | undefined, folder: string, logger: Logger): OpenBackups {
  const backups = source && new Backups(source, folder, logger);
  const requireBackups = (): Backups => {
    if (backups !== undefined) return backups;
    throw new Rejected('backups_not_here', 'only embedded engines can be backed up here');
  };
  return {
    handlers: {
      listBackups: async () => ({ into: folder, backups: await requireBackups().list() }),
      createBackup: () => requireBackups().start(),
    },
    close: async () => await backups?.close(),
  };
}

class Backups {
  readonly #source: BackupSource;
  readonly #into: string;
  readonly #logger: Logger;
  readonly #closing = new AbortController();
  readonly #failures: Backup[] = [];
  /** Summaries of backups by folder name. The value is undefined for a backup of another deployment. */
  readonly #read = new Map<string, Backup | undefined>();
  #running: { readonly backup: Backup; readonly done: Promise<void> } | undefined;

  constructor(source: BackupSource, into: string, logger: Logger) {
    this.#source = source;
    this.#into = into;
    this.#logger = logger;
  }

  start(): Backup {
    if (this.#running !== undefined) throw new Rejected('already_running', 'another backup is running');
    const backup: Backup = {
      ...{ id: randomUUID(), state: 'running', startedAt: new Date().toISOString() },
      ...{ endedAt: null, folder: null, bytes: null, problem: null },
    };
    this.#running = { backup, done: this.#make(backup) };
    return backup;
  }

  async list(): Promise<Backup[]> {
    // Reads the running backup first. In the opposite order, a backup that ends in between would be missing in the list.
    const { backup } = this.#running ?? {};
    const finished = await this.#finished();
    const byId = new Map<string, Backup>();
    for (const one of [...(backup ? [backup] : []), ...this.#failures, ...finished]) byId.set(one.id, one);
    return [...byId.values()].sort((a, b) => (a.startedAt < b.startedAt ? 1 : -1));
  }

  /** Returns the backups in the folder. Reads each manifest once, because a manifest lists every upload and can be large. */
  async #finished(): Promise<Backup[]> {
    const names = (await readdir(this.#into).catch(() => [])).filter((name) => !name.startsWith('.')).sort();
    for (const name of this.#read.keys()) if (!names.includes(name)) this.#read.delete(name);
    const finished: Backup[] = [];
    for (const name of names.reverse()) {
      const one = await this.#summaryOf(name);
      if (one !== undefined && finished.push(one) === MAX_LISTED) break;
    }
    return finished;
  }

  async #summaryOf(name: string): Promise<Backup | undefined> {
    if (this.#read.has(name)) return this.#read.get(name);
    const folder = join(this.#into, name);
    const manifest = await readManifest(folder).catch(() => undefined);
    if (manifest === undefined) return undefined;
    const isOurs = manifest.logId === this.#source.log.id;
    this.#read.set(name, isOurs ? summaryOf({ folder, manifest }) : undefined);
    return this.#read.get(name);
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error('Questlog is stopping'));
    await this.#running?.done;
  }

  /** Creates a backup. If the backup fails, logs the error and resolves. */
  async #make(backup: Backup): Promise<void> {
    const [into, logger] = [this.#into, this.#logger];
    const { id, startedAt } = backup;
    try {
      const finished = await makeBackup(
        this.#source,
        { id, startedAt, version: await version() },
        into,
        this.#closing.signal,
      );
      const { folder, bytes } = summaryOf(finished);
      logger.info('backup_made', { folder, bytes });
    } catch (error) {
      logger.error('backup_failed', error, { into });
      const endedAt = new Date().toISOString();
      this.#failures.push({ ...backup, state: 'failed', endedAt, problem: messageOf(error) });
      this.#failures.splice(0, this.#failures.length - MAX_FAILURES);
    } finally {
      this.#running = undefined;
    }
  }
}

function summaryOf({ folder, manifest }: FinishedBackup): Backup {
  const { id, startedAt, endedAt } = manifest;
  return { id, state: 'done', startedAt, endedAt, folder, bytes: bytesOf(manifest), problem: null };
}

async function version(): Promise<string> {
  const text = await readFile(new URL('../../../../package.json', import.meta.url), 'utf8');
  return String(JSON.parse(text).version);
}
