/** Results of the planted bugs and of the mutants: lines of JSON, and their part of `docs/evidence/reliability.md`. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../tidy/projectFiles.ts';
import type { PlantedBug } from './plantedBugs.ts';

const HERE = join(ROOT, 'test/mutation');

export interface PlantedResult extends Pick<PlantedBug, 'name' | 'lost' | 'file'> {
  /** File and title of the test that failed. */
  readonly caughtBy: string;
  readonly seconds: number;
}

/** Score of a folder or a file. */
export interface MutantScore {
  readonly name: string;
  readonly killed: number;
  readonly all: number;
  /** True if only the tests in the same folder ran. */
  readonly isAlone?: boolean;
}

interface Kept {
  /** ISO 8601. */
  readonly at: string;
  /** Output of `git describe`, with `-dirty` if files differed. Undefined if the history has no such commit. */
  readonly commit?: string;
}

interface Results {
  readonly planted: PlantedResult;
  readonly scores: MutantScore;
}

/** Replaces the earlier results with the same name and the same tests by the results of this run. */
export function keepResults<Kind extends keyof Results>(kind: Kind, results: readonly Results[Kind][]): void {
  const commit = execFileSync('git', ['describe', '--always', '--dirty'], {
    cwd: ROOT,
    encoding: 'utf8',
  }).trim();
  const keyOf = (one: Results[Kind]): string =>
    'isAlone' in one && one.isAlone ? `${one.name}, alone` : one.name;
  const byKey = new Map(resultsOf(kind).map((one) => [keyOf(one), one]));
  const at = new Date().toISOString();
  for (const result of results) byKey.set(keyOf(result), { ...result, at, commit });
  writeFileSync(pathOf(kind), [...byKey.values()].map((one) => `${JSON.stringify(one)}\n`).join(''));
}

/** Returns the blocks of the page. */
export function mutationBlocks(): string[] {
  const planted = resultsOf('planted');
  const files = new Set(planted.map(({ file }) => file));
  const scores = resultsOf('scores');
  const shares = scores.map(({ killed, all }) => killed / all);
  const changes = scores.reduce((total, { all }) => total + all, 0).toLocaleString('en-US');
  return [
    '## Planted bugs',
    `[${planted.length} bugs](../../test/mutation/plantedBugs.ts) in ${files.size} files were planted, one at a time. Each bug made a
test fail ([results](../../test/mutation/planted.jsonl)).`,
    '## Mutants',
    scores.length === 0
      ? 'None were run yet.'
      : `Stryker made ${changes} changes to ${scores.length} folders and files, one at a time. In each folder, the fast tests detected
${shown(Math.min(...shares))} to ${shown(Math.max(...shares))} of the changes ([results](../../test/mutation/scores.jsonl)). [survivors.txt](../../test/mutation/survivors.txt) explains the others.`,
  ];
}

function resultsOf<Kind extends keyof Results>(kind: Kind): (Results[Kind] & Kept)[] {
  const path = pathOf(kind);
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line));
}

function pathOf(kind: keyof Results): string {
  return join(HERE, `${kind}.jsonl`);
}

/** Returns the ratio in percent, rounded down, so that 89.96 % is not shown as the required 90.0 %. */
function shown(share: number): string {
  return `${(Math.floor(share * 1000) / 10).toFixed(1)} %`;
}
