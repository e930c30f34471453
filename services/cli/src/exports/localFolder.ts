/** Writes an export to a folder of this machine. Until the export ends, `progress.ndjson` has the facts of each complete file. */
import { createReadStream } from 'node:fs';
import { appendFile, mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { messageOf } from '@questlog/runtime/process/errors';
import { UNFINISHED, writeAtomically } from '../queries/outputFile.ts';
import { type ExportFolder, type FileFacts, MeasuredContent } from './exportFolder.ts';

export async function openLocalFolder(path: string): Promise<ExportFolder> {
  await mkdir(path, { recursive: true });
  for (const name of await readdir(path, { recursive: true }))
    if (name.endsWith(UNFINISHED)) await rm(join(path, name), { force: true });
  const progress = join(path, 'progress.ndjson');
  const facts = factsIn((await textOf(progress)) ?? '');
  const { signal: never } = new AbortController();
  return {
    path,
    isEmpty: async () => (await readdir(path)).length === 0,
    read: (name) => textOf(join(path, name)),
    write: (name, text) => writeAtomically(join(path, name), Readable.from([text]), never),
    finish: async (name) => {
      await rm(join(path, name), { force: true });
      await rm(progress, { force: true });
    },
    find: async (name) => {
      const known = facts.get(name);
      return known !== undefined && (await hasContent(join(path, name), known)) ? known : undefined;
    },
    store: async (name, content, chunk) => {
      const file = join(path, name);
      await mkdir(dirname(file), { recursive: true });
      await writeAtomically(file, content.stream, content.signal);
      const stored = { ...chunk, ...content.measured() };
      await appendFile(progress, `${JSON.stringify([name, stored])}\n`, { flush: true }).catch(
        (cause: unknown) => {
          throw new Error(`${progress} was not written: ${messageOf(cause)}`, { cause });
        },
      );
      return stored;
    },
  };
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
