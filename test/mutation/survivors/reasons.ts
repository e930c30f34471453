/** How survivors are told, and the reasons that several of them have. */

export interface Survivors {
  readonly file: string;
  /** A part of the line on which the mutants begin. */
  readonly line: string;
  readonly reason: string;
}

/** The check is for the types. */
export const ALWAYS_THERE = 'it is always there: who asks has it from the same state';
/** Stryker fills an empty array with a text. */
export const NO_ENTRY = 'a text instead of an entry names nothing and is skipped';
export const SAME_BY_ANOTHER_WAY = 'time: the longer way has the same outcome';
export const READ_AGAIN = 'time: a string that came before is made again instead of being found';

export const alike = (file: string, reason: string, lines: readonly string[]): Survivors[] =>
  lines.map((line) => ({ file, line, reason }));
