/**
 * Reads `survivors.txt`: the mutants that no test detects. A line without a tab names a source file. Each line below it has a
 * part of the source line on which the mutants begin, and the reason why no test detects them.
 */
import { textOf } from '../tidy/projectFiles.ts';

export interface Survivors {
  readonly file: string;
  readonly line: string;
  readonly reason: string;
}

export const SURVIVORS: readonly Survivors[] = readSurvivors(textOf('test/mutation/survivors.txt'));

function readSurvivors(text: string): Survivors[] {
  let file = '';
  return text
    .trimEnd()
    .split('\n')
    .flatMap((one) => {
      const [, line, reason] = one.split('\t');
      if (line === undefined || reason === undefined) file = one;
      return line === undefined || reason === undefined ? [] : [{ file, line, reason }];
    });
}
