import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { completionScript } from './completion.ts';
import { questlog } from './program.ts';

const program = questlog(async () => {
  throw new Error('completion must not connect');
}, {});

/** Returns the completions of the last word in a real bash. */
function completionsOf(...words: readonly string[]): string[] {
  const script = `${completionScript(program, 'bash')}
    COMP_WORDS=(questlog "$@"); COMP_CWORD=$#; _questlog; echo "\${COMPREPLY[@]}"`;
  const output = execFileSync('bash', ['-c', script, 'bash', ...words], { encoding: 'utf8' });
  return output.trim().split(' ').filter(Boolean);
}

test.each([
  [['sta'], ['standalone']],
  [
    ['tenants', ''],
    ['list', 'create', 'set', 'help', '--help'],
  ],
  [['tenants', 'create', '--q'], ['--quota']],
  [['projects', 'create', '--q'], []],
  [
    ['simulate', '--speed', ''],
    ['live', 'max'],
  ],
  [['simulate', '--json', '--see'], ['--seed']],
  [['completion', 'z'], ['zsh']],
  [['send', '--file', ''], []],
])('bash completes %j to %j', (words, may) => {
  expect(completionsOf(...words)).toEqual(may);
});

test('completes every command', () => {
  const names = program.commands.map((command) => command.name());
  expect(completionsOf('')).toEqual(expect.arrayContaining(names));
  const fish = completionScript(program, 'fish');
  expect(names.filter((name) => !fish.includes(` -a ${name} -d `))).toEqual([]);
});
