/** Reads the questions of `docs/data-guide.md` and the SQL files that the page links. */
import { readFileSync } from 'node:fs';

const PAGE = new URL('../../docs/data-guide.md', import.meta.url);
const QUESTION = /^(?<number>\d+)\. \*\*\[(?<title>[^\]]+)\]\((?<file>[^)]+\.sql)\)\*\*/gm;

export interface Question {
  readonly number: number;
  readonly title: string;
  readonly sql: string;
}

/** Returns the items `1. **[Who …?](….sql)**` of the page. */
export function questionsOfGuide(): Question[] {
  return [...readFileSync(PAGE, 'utf8').matchAll(QUESTION)].map(({ groups = {} }) => ({
    number: Number(groups['number']),
    title: groups['title'] ?? '',
    sql: readFileSync(new URL(groups['file'] ?? '', PAGE), 'utf8'),
  }));
}
