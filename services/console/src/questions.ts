/** The questions of the data guide, which the console offers. */
import { readdirSync, readFileSync } from 'node:fs';

const QUERIES = new URL('../../../examples/queries/', import.meta.url);

export interface Question {
  readonly title: string;
  /** SQL query with the parameters `tenant`, `project`, `from`, and `to`. */
  readonly query: string;
}

/** Reads the questions in the order of their file names. The first line of a file is a comment with the title. */
export function readQuestions(): Question[] {
  return readdirSync(QUERIES)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => {
      const [first = '', ...query] = readFileSync(new URL(name, QUERIES), 'utf8').trim().split('\n');
      return { title: first.replace('-- ', ''), query: query.join('\n') };
    });
}
