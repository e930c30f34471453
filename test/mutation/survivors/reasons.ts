/** Type of a listed survivor, and the reasons that several survivors share. */

export interface Survivors {
  readonly file: string;
  /** Part of the source line on which the mutants begin. */
  readonly line: string;
  readonly reason: string;
}

/** The check satisfies the type checker. */
export const ALWAYS_DEFINED = 'the value is always defined, because its key comes from the same state';
/** Stryker adds a string to an empty array. */
export const NO_ENTRY = 'Stryker’s string instead of an entry names nothing and is skipped';
export const SLOWER_PATH = 'time: the slower path has the same result';
export const DECODED_AGAIN = 'time: a known string is decoded again instead of found in the cache';

export const sharing = (file: string, reason: string, lines: readonly string[]): Survivors[] =>
  lines.map((line) => ({ file, line, reason }));
