/** Checks that no file mentions how the project was made or the machine on which it was made. */
import { test } from 'vitest';
import { lineAt, projectFiles, textOf } from './projectFiles.ts';
import { expectNone } from './violations.ts';

/** Patterns in pieces, so that this file does not match. */
const FORBIDDEN = [
  ['Clau', 'de'],
  ['Anthro', 'pic'],
  ['OpenA', 'I\\b'],
  ['Chat', 'GPT'],
  ['Co', 'pilot\\b'],
  ['\\bA', 'I\\b'],
  ['\\bL', 'LMs?\\b'],
  ['sub-?', 'agents?\\b'],
  ['language ', 'model'],
  ['session of ', 'work'],
  ['Co-Authored', '-By'],
  ['registry\\.', 'npmjs'],
  ['(?<![\\w.])/', 'work/'],
  ['/home/', '\\w'],
  ['(design|interface|style)\\.', 'md\\b'],
  ['\\(design, ', 'section'],
  ['style ', 'rule \\d'],
].map((pieces) => new RegExp(pieces.join(''), 'g'));

const BINARY = /\.(png|ico|woff2?|gz|zst|bin)$/;

test('no file mentions how the project was made', () => {
  expectNone(
    projectFiles()
      // Checksums can contain any letters. `dependencies.test.ts` checks the registry hosts.
      .filter((path) => path !== 'package-lock.json' && !BINARY.test(path))
      .flatMap((path) => {
        const text = textOf(path);
        return FORBIDDEN.flatMap((word) =>
          [...text.matchAll(word)].map(({ 0: found, index }) => {
            return `${path}:${lineAt(text, index)}: "${found}" is not about the product`;
          }),
        );
      }),
  );
});
