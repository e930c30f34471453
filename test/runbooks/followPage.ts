/**
 * Follows a page of docs/operating/runbooks: types its marked blocks into one shell, in their order, as they stand there. Marks:
 *
 * - a fence ```` ```sh run ```` is typed, and must succeed; ```` ```sh run fails ```` must not;
 * - a fence ```` ```text answer ```` behind it: each of its lines is in what was answered; `…` is anything, white space any;
 * - a comment `<!-- test: name -->` is what the shell cannot do: the test's `hands` of this name.
 *
 * Other blocks are not typed. A shell's variables stay from block to block.
 */
import { spawn } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const MARK =
  /^<!-- test: (?<hand>\w+) -->$|^```sh run(?<fails> fails)?\n(?<typed>[\s\S]*?)^```$|^```text answer\n(?<answer>[\s\S]*?)^```$/gm;
const END = 'end of a block';

export type Hands = Readonly<Record<string, () => Promise<void>>>;

/** @param text of the page. @throws naming the block that did not do what the page says, with what it said. */
export async function followPage(text: string, hands: Hands, env: NodeJS.ProcessEnv): Promise<void> {
  const shell = openShell(env);
  // A test that is out of time does not come to the end of this.
  onTestFinished(shell.close);
  const idle = new Set(Object.keys(hands));
  let said = '';
  try {
    for (const { groups = {} } of text.matchAll(MARK)) {
      const { hand, fails, typed, answer } = groups;
      if (hand !== undefined) {
        const does = hands[hand];
        if (does === undefined) throw new Error(`the page asks for the hand "${hand}"`);
        await does();
        idle.delete(hand);
      } else if (typed !== undefined) {
        const { output, failed } = await shell.type(typed);
        said = output;
        if (failed !== (fails !== undefined))
          throw new Error(`${failed ? 'failed' : 'did not fail'}:\n${typed}\n${said}`);
      } else {
        for (const line of (answer ?? '').trim().split('\n'))
          if (!patternOf(line).test(said)) throw new Error(`no "${line}" in the answer:\n${said}`);
      }
    }
  } finally {
    shell.close();
  }
  if (idle.size > 0) throw new Error(`the page does not ask for: ${[...idle].join(', ')}`);
}

/** ClickHouse's own client is not on the machines of the tests: its HTTP in its place, at `$CLICKHOUSE`. */
export const CLICKHOUSE_CLIENT = {
  'clickhouse-client': `curl -sS --fail-with-body "$CLICKHOUSE" --data-binary "$2"`,
};

/** Has commands of a page do what a shell's text says. @returns the PATH with them. */
export function standIns(folder: string, commands: Readonly<Record<string, string>>): string {
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  for (const [name, does] of Object.entries(commands)) {
    writeFileSync(join(bin, name), `#!/bin/bash\n${does}\n`);
    chmodSync(join(bin, name), 0o755);
  }
  return `${bin}:${process.env['PATH']}`;
}

function patternOf(line: string): RegExp {
  const literal = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const words = line
    .trim()
    .split(/\s+/)
    .map((word) => word.split('…').map(literal).join('.*?'));
  return new RegExp(words.join('\\s+'), 'u');
}

/** Bash in the project's folder; both of its outputs are one, as in a terminal. */
function openShell(env: NodeJS.ProcessEnv): {
  type(block: string): Promise<{ output: string; failed: boolean }>;
  /** What it has started ends with it. */
  close(): void;
} {
  const child = spawn('bash', ['--noprofile', '--norc', '-o', 'pipefail'], {
    cwd: ROOT,
    env,
    detached: true,
  });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  child.stdin.write(`exec 2>&1\ntrap 'failed=1' ERR\n`);
  return {
    type: async (block) => {
      // What is typed reads nothing of what comes behind it.
      child.stdin.write(`failed=0\n{\n${block}\n} </dev/null\necho; echo "${END} $failed"\n`);
      let output = '';
      for (;;) {
        const { value, done } = await lines.next();
        if (done) throw new Error(`the shell ended in:\n${block}\n${output}`);
        if (value.startsWith(END)) return { output, failed: value !== `${END} 0` };
        output += `${value}\n`;
      }
    },
    close: () => {
      try {
        process.kill(-(child.pid as number), 'SIGKILL');
      } catch {
        // It has ended.
      }
    },
  };
}
