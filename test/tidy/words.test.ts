/** The project speaks of what it is, not of how it came to be, nor of the machine that it was made on. */
import { test } from 'vitest';
import { lineAt, projectFiles, textOf } from './house.ts';
import { expectNone } from './violations.ts';

/** Written in pieces, so that the list does not find itself. */
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

test('no file speaks of how the project came to be', () => {
  expectNone(
    projectFiles()
      // Its integrity hashes can spell anything; which hosts it names has a rule of its own.
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
