/** What the runs of planted bugs and of mutants have found: lines of JSON, and their part of `docs/evidence/reliability.md`. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../tidy/projectFiles.ts';
import type { PlantedBug } from './plantedBugs.ts';

const HERE = join(ROOT, 'test/mutation');

export interface PlantedResult extends Pick<PlantedBug, 'name' | 'lost' | 'file'> {
  /** The test that turned red, behind its file. */
  readonly caughtBy: string;
  readonly seconds: number;
}

/** Of a folder or a file. */
export interface MutantScore {
  readonly name: string;
  readonly killed: number;
  readonly all: number;
  /** By the tests of its own folder, and no others. */
  readonly isAlone?: boolean;
}

interface Kept {
  /** ISO 8601. */
  readonly at: string;
  /** As `git describe` tells it: `-dirty` where files differed. */
  readonly commit: string;
}

interface Results {
  readonly planted: PlantedResult;
  readonly scores: MutantScore;
}

/** Those of this run in place of what earlier ones of the same name, by the same tests, had found. */
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

/** The blocks of the page. */
export function mutationBlocks(): string[] {
  const planted = resultsOf('planted').map(({ name, lost, caughtBy, commit }) => {
    const [file = '', ...title] = caughtBy.split(': ');
    return [name, lost, `[${title.join(': ')}](../../${file})`, commit];
  });
  const scores = resultsOf('scores').map(({ name, killed, all, isAlone = false, at, commit }) => {
    const by = isAlone ? 'its own' : 'all fast ones';
    return [
      `\`${name}\``,
      all,
      // Never up: 84.96 % is not the 85.0 that is asked for.
      `${(Math.floor((1000 * killed) / all) / 10).toFixed(1)} %`,
      by,
      `${at.slice(0, 10)}, ${commit}`,
    ];
  });
  return [
    '## Planted bugs',
    `Each was planted alone in a copy of the tree, and the test beside it turned red.
\`npm run test:mutation -- --planted\` does it again.`,
    tableOf(['bug', 'what would be lost', 'caught by', 'commit'], planted),
    '## Mutants',
    `A tool changed the decisions of the product one by one. Each change that no test noticed has its reason in
[survivors.ts](../../test/mutation/survivors/survivors.ts). By "its own" tests, those without IO beside it: those that set the clock are left out.`,
    tableOf(['folder', 'changes', 'noticed', 'by tests', 'run'], scores),
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

function tableOf(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  if (rows.length === 0) return 'None were tried yet.';
  const line = (cells: readonly (string | number)[]): string =>
    `| ${cells.map((cell) => String(cell).replaceAll('|', ' ')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}
