/**
 * Writes an export to a folder of this machine. Until the export ends, `progress.ndjson` has the facts of each complete file.
 * `export.lock` has the id of the process that writes to the folder.
 */
import { createReadStream } from 'node:fs';
import { appendFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { type ExportFolder, type FileFacts, MeasuredContent } from '@questlog/runtime/exports/exportFolder';
import { messageOf } from '@questlog/runtime/process/errors';
import { UNFINISHED, writeAtomically } from '../queries/outputFile.ts';

const LOCK = 'export.lock';

/** @throws Error if another process writes to the folder */
export async function openLocalFolder(path: string): Promise<ExportFolder> {
  await mkdir(path, { recursive: true });
  const lock = join(path, LOCK);
  await createLock(lock);
  for (const name of await readdir(path, { recursive: true }))
    if (name.endsWith(UNFINISHED)) await rm(join(path, name), { force: true });
  const progress = join(path, 'progress.ndjson');
  const facts = factsIn((await textOf(progress)) ?? '');
  const { signal: never } = new AbortController();
  const remove = (name: string) => rm(join(path, name), { force: true });
  return {
    path,
    isEmpty: async () => (await readdir(path)).every((name) => name === LOCK),
    read: (name) => textOf(join(path, name)),
    write: (name, text) => writeAtomically(join(path, name), Readable.from([text]), never),
    remove,
    finish: async (name) => {
      await remove(name);
      await rm(progress, { force: true });
    },
    close: () => rm(lock, { force: true }),
    find: async (name) => {
      const known = facts.get(name);
      return known !== undefined && (await hasContent(join(path, name), known)) ? known : undefined;
    },
    store: async (name, content, { rows, state }) => {
      const file = join(path, name);
      await mkdir(dirname(file), { recursive: true });
      await writeAtomically(file, content.stream, content.signal);
      const stored = { rows, state, ...content.measured() };
      await appendFile(progress, `${JSON.stringify([name, stored])}\n`, { flush: true }).catch(
        (cause: unknown) => {
          throw new Error(`${progress} was not written: ${messageOf(cause)}`, { cause });
        },
      );
      return stored;
    },
  };
}

/**
 * Creates the lock. Replaces the lock of a process that has ended, or whose process id this process now has. In a container, a
 * new process often gets the id of an earlier process.
 */
async function createLock(lock: string): Promise<void> {
  const pid = Number(await textOf(lock));
  if (pid > 0 && pid !== process.pid && isRunning(pid))
    throw new Error(
      `process ${pid} already exports into this folder; if process ${pid} is not an export, delete ${lock}`,
    );
  await rm(lock, { force: true });
  await writeFile(lock, String(process.pid), { flag: 'wx' });
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** Reads the lines of `progress.ndjson`. Ignores an incomplete line, which a killed command can leave. */
function factsIn(text: string): Map<string, FileFacts> {
  const lines = text.split('\n').slice(0, -1);
  return new Map(
    lines.flatMap((line): [string, FileFacts][] => {
      try {
        return [JSON.parse(line)];
      } catch {
        return [];
      }
    }),
  );
}

async function hasContent(path: string, { bytes, sha256 }: FileFacts): Promise<boolean> {
  const content = new MeasuredContent(createReadStream(path), new AbortController().signal);
  try {
    for await (const _ of content.stream);
  } catch {
    return false;
  }
  const found = content.measured();
  return found.bytes === bytes && found.sha256 === sha256;
}

async function textOf(path: string): Promise<string | undefined> {
  return await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
}
