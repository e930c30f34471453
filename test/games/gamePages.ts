/** Reads the code of the examples, and finds the programs that run it. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { failIfRequired } from '@questlog/runtime/process/testing/required';

/** Returns a file of `examples`. */
export function exampleOf(path: string): string {
  return readFileSync(new URL(`../../examples/${path}`, import.meta.url), 'utf8');
}

/** Returns the blocks of a language on a page of `docs/games`. */
export function codeOf(page: string, language: string): string[] {
  const text = readFileSync(new URL(`../../docs/games/${page}`, import.meta.url), 'utf8');
  const blocks = text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, 'gm'));
  return [...blocks].map(([, code = '']) => code);
}

/** Returns the path of a program, or undefined if it is not installed. @throws Error if `QUESTLOG_REQUIRE` names it. */
export function findProgram(name: string): string | undefined {
  const path = spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim();
  if (path !== '') return path;
  failIfRequired(name, 'it is not installed');
  return undefined;
}
