/** Checks that no log of a test run contains a token of the run. Stores the output of the processes and searches it at the end. */
import type { ChildProcess } from 'node:child_process';
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Environment variable with the folder of the run. Unset if logs are not searched. */
const FOLDER = 'QUESTLOG_TEST_LOGS';
const TOKENS = 'tokens';
const STDOUT = '.stdout';
/** Prefix of the demo token, which the banner prints. */
const SHOWN = 'shown ';
/** Minimum length of a token. Shorter texts are test data and not secret. */
const SHORTEST = 16;
const HEAD = 4;

/** State of the whole run. Every tier loads this module again, so the state is global. */
const run = globalThis as typeof globalThis & { questlogLogs?: string; questlogLogTiers?: number };

/** Returns a function that searches the logs after the last tier. @throws Error with file and line if a log contains a token. */
export function setup(): () => void {
  run.questlogLogTiers = (run.questlogLogTiers ?? 0) + 1;
  run.questlogLogs ??= mkdtempSync(join(tmpdir(), 'questlog-logs-'));
  const folder = run.questlogLogs;
  process.env[FOLDER] = folder;
  return () => {
    run.questlogLogTiers = (run.questlogLogTiers ?? 1) - 1;
    if (run.questlogLogTiers > 0) return;
    const leaks = leaksIn(folder);
    if (leaks.length > 0) throw new Error(`logs of this run contain tokens:\n${leaks.join('\n')}`);
    rmSync(folder, { recursive: true, force: true });
  };
}

const noted = new Set<string>();

/** @param isShown true if the product may print the token to standard output. */
export function noteToken(token: string, isShown = false): void {
  const folder = process.env[FOLDER];
  const line = (isShown ? SHOWN : '') + token;
  if (folder === undefined || token.length < SHORTEST || noted.has(line)) return;
  noted.add(line);
  appendFileSync(join(folder, TOKENS), `${line}\n`);
}

/** @param name name of the process. */
export function keepLogs({ pid, stdout, stderr }: ChildProcess, name: string): void {
  const folder = process.env[FOLDER];
  if (folder === undefined) return;
  const path = join(folder, `${name}-${pid}`);
  stdout?.on('data', (chunk: Buffer) => appendFileSync(path + STDOUT, chunk));
  stderr?.on('data', (chunk: Buffer) => appendFileSync(`${path}.stderr`, chunk));
}

/** Returns the leaks, each as `file:line`. */
export function leaksIn(folder: string): string[] {
  const files = readdirSync(folder);
  if (!files.includes(TOKENS)) return [];
  const lines = readFileSync(join(folder, TOKENS), 'utf8').split('\n');
  const shown = new Set(
    lines.filter((line) => line.startsWith(SHOWN)).map((line) => line.slice(SHOWN.length)),
  );
  const secret = lines.filter((line) => line !== '' && !line.startsWith(SHOWN));
  return files
    .filter((file) => file !== TOKENS)
    .flatMap((file) => {
      const tokens = [...secret, ...shown].filter((token) => !(file.endsWith(STDOUT) && shown.has(token)));
      return linesWith(readFileSync(join(folder, file), 'utf8'), tokens).map(
        (line) => `${join(folder, file)}:${line}`,
      );
    });
}

/** Returns the numbers of the lines that contain a token. Searches for the few different prefixes of thousands of tokens first. */
function linesWith(log: string, tokens: readonly string[]): number[] {
  const found = new Set<number>();
  for (const [head, alike] of Map.groupBy(tokens, (token) => token.slice(0, HEAD))) {
    const [all, lengths] = [new Set(alike), [...new Set(alike.map(({ length }) => length))]];
    for (let at = log.indexOf(head); at >= 0; at = log.indexOf(head, at + 1)) {
      const isToken = lengths.some((length) => all.has(log.slice(at, at + length)));
      if (isToken) found.add(log.slice(0, at).split('\n').length);
    }
  }
  return [...found];
}
