/** No log of a test run has a token that the run has used: what the processes say is kept, and searched at the end. */
import type { ChildProcess } from 'node:child_process';
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Names the folder of the run to its workers; unset where nothing is searched. */
const FOLDER = 'QUESTLOG_TEST_LOGS';
const TOKENS = 'tokens';
const STDOUT = '.stdout';
/** Of the start of a demo: its banner says the token. */
const SHOWN = 'shown ';
/** Tests send words, too: what is shorter is no secret of anybody. */
const SHORTEST = 16;
const HEAD = 4;

/** Every tier loads this module anew; the folder is one for all of them. */
const run = globalThis as typeof globalThis & { questlogLogs?: string; questlogLogTiers?: number };

/** @returns what searches, once the last tier has ended. @throws where a log has a token, naming file and line. */
export function setup(): () => void {
  run.questlogLogTiers = (run.questlogLogTiers ?? 0) + 1;
  run.questlogLogs ??= mkdtempSync(join(tmpdir(), 'questlog-logs-'));
  const folder = run.questlogLogs;
  process.env[FOLDER] = folder;
  return () => {
    run.questlogLogTiers = (run.questlogLogTiers ?? 1) - 1;
    if (run.questlogLogTiers > 0) return;
    const leaks = leaksIn(folder);
    if (leaks.length > 0) throw new Error(`tokens stand in logs of this run:\n${leaks.join('\n')}`);
    rmSync(folder, { recursive: true, force: true });
  };
}

const noted = new Set<string>();

/** @param isShown on the standard output of the product, where it belongs. */
export function noteToken(token: string, isShown = false): void {
  const folder = process.env[FOLDER];
  const line = (isShown ? SHOWN : '') + token;
  if (folder === undefined || token.length < SHORTEST || noted.has(line)) return;
  noted.add(line);
  appendFileSync(join(folder, TOKENS), `${line}\n`);
}

/** @param name of the process. */
export function keepLogs({ pid, stdout, stderr }: ChildProcess, name: string): void {
  const folder = process.env[FOLDER];
  if (folder === undefined) return;
  const path = join(folder, `${name}-${pid}`);
  stdout?.on('data', (chunk: Buffer) => appendFileSync(path + STDOUT, chunk));
  stderr?.on('data', (chunk: Buffer) => appendFileSync(`${path}.stderr`, chunk));
}

/** Each as `file:line`. */
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

/** Line numbers. Of thousands of tokens only their few beginnings are looked for. */
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
