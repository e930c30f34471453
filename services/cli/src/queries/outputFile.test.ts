/** Tests that an output file appears only after it is complete, even if the command ends early. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { writeAtomically } from './outputFile.ts';

let folder: string;
const never = new AbortController().signal;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'questlog-output-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
});

test('writes the whole content, replaces an older file, and follows a symbolic link', async () => {
  writeFileSync(join(folder, 'old'), 'older and longer');
  symlinkSync('old', join(folder, 'link'));
  const seen: string[][] = [];
  const content = async function* () {
    yield 'a';
    seen.push(readdirSync(folder).filter((name) => !name.endsWith('.unfinished')));
    yield 'b';
  };
  for (const name of ['new', 'link'])
    await writeAtomically(join(folder, name), Readable.from(content()), never);

  expect(seen).toEqual([
    ['link', 'old'],
    ['link', 'new', 'old'],
  ]);
  expect(['new', 'old', 'link'].map((name) => readFileSync(join(folder, name), 'utf8'))).toEqual([
    'ab',
    'ab',
    'ab',
  ]);
  expect(readdirSync(folder)).toEqual(['link', 'new', 'old']);
});

test.each(['fails', 'is interrupted'])(
  'leaves no new file and an older file unchanged if the content %s',
  async (how) => {
    writeFileSync(join(folder, 'old'), 'old');
    for (const name of ['new', 'old']) {
      const stop = new AbortController();
      const content = async function* () {
        yield 'a';
        if (how === 'fails') throw new Error('cut off');
        stop.abort();
        yield 'b';
      };
      const path = join(folder, name);
      await expect(writeAtomically(path, Readable.from(content()), stop.signal)).rejects.toThrow(
        `${path} was not written: `,
      );
    }

    expect(readdirSync(folder)).toEqual(['old']);
    expect(readFileSync(join(folder, 'old'), 'utf8')).toBe('old');
  },
);

test('does not replace a path that is not a regular file', async () => {
  for (const path of [folder, '/dev/null', join(folder, 'missing', 'file')]) {
    await expect(writeAtomically(path, Readable.from(['a']), never)).rejects.toThrow(
      `${path} was not written: `,
    );
  }
  expect(readdirSync(folder)).toEqual([]);
});
