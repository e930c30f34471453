/** Reads and writes the result file: one JSON object per line and run, with its machine. Lines are only appended. */
import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Outcome } from './tryRows.ts';

export const RESULTS = 'docs/evidence/reliability.jsonl';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const POM = 'deploy/kafka-local/pom.xml';

export interface Surroundings {
  readonly commit: string;
  /** True if files differed from the commit. Such a run does not count on the page. */
  readonly isUncommitted: boolean;
  readonly cpus: number;
  readonly memoryGiB: number;
  readonly kernel: string;
  readonly node: string;
  readonly kafka: string;
  readonly clickhouse: string;
}

export interface Result extends Outcome, Surroundings {
  /** Rows of the same environment. Their faults happened one after the other, and then the run had one verdict. */
  readonly rows: readonly string[];
  readonly form: 'long' | 'short';
  readonly seed: number;
  /** Time of the end of the run, ISO 8601. */
  readonly at: string;
}

/** Returns the arguments that repeat a run. */
export function argumentsOf({ rows, form, seed }: Pick<Result, 'rows' | 'form' | 'seed'>): string {
  return `--row ${rows.join(',')}${form === 'short' ? ' --short' : ''} --seed ${seed}`;
}

/** True if the row failed. A finding that starts with the name of a row belongs to that row only. */
export function hasFailed(name: string, { rows, findings }: Pick<Result, 'rows' | 'findings'>): boolean {
  const isOf = (row: string, finding: string) => finding.startsWith(`${row}: `);
  return findings.some((finding) => isOf(name, finding) || !rows.some((row) => isOf(row, finding)));
}

export function readResults(): Result[] {
  const path = `${ROOT}/${RESULTS}`;
  if (!existsSync(path)) return [];
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}

export function addResult(result: Result): void {
  appendFileSync(`${ROOT}/${RESULTS}`, `${JSON.stringify(result)}\n`);
}

export function surroundings(clickhouse: string): Surroundings {
  const changed = git('status', '--porcelain').split('\n');
  return {
    commit: git('rev-parse', '--short=10', 'HEAD'),
    isUncommitted: changed.some((line) => line !== '' && !line.includes('docs/evidence/reliability.')),
    cpus: cpus().length,
    memoryGiB: Math.round(totalmem() / 1024 ** 3),
    kernel: release(),
    node: process.versions.node,
    kafka: /<kafka\.version>([\d.]+)/.exec(readFileSync(`${ROOT}/${POM}`, 'utf8'))?.[1] ?? '',
    clickhouse,
  };
}

function git(...args: string[]): string {
  return execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();
}
