/**
 * Follows a page of docs/operating/runbooks: runs its marked blocks unchanged in one shell, in order. Marks:
 *
 * - A block ```` ```sh run ```` must succeed. A block ```` ```sh run fails ```` must fail.
 * - A block ```` ```text answer ```` lists lines of the previous output. `…` matches any text, a space any white space.
 * - A comment `<!-- test: name -->` calls the function with this name in the `hands` of the test.
 *
 * Other blocks are not run. All blocks share the variables of the shell.
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

/** Sets a variable of the shell for the following blocks. */
type SetVariable = (name: string, value: string) => Promise<unknown>;
export type Hands = Readonly<Record<string, (setVariable: SetVariable) => Promise<void>>>;

/** @param text text of the page. @throws Error with the block and its output if the result differs from the page. */
export async function followPage(text: string, hands: Hands, env: NodeJS.ProcessEnv): Promise<void> {
  const shell = openShell(env);
  // Closes the shell even after a timeout of the test, which skips the rest of this function.
  onTestFinished(shell.close);
  const idle = new Set(Object.keys(hands));
  let lastOutput = '';
  try {
    for (const { groups = {} } of text.matchAll(MARK)) {
      const { hand, fails, typed, answer } = groups;
      if (hand !== undefined) {
        const does = hands[hand];
        if (does === undefined) throw new Error(`the page asks for the hand "${hand}"`);
        await does((name, value) => shell.type(`${name}='${value}'`));
        idle.delete(hand);
      } else if (typed !== undefined) {
        const { output, failed } = await shell.type(typed);
        lastOutput = output;
        if (failed !== (fails !== undefined))
          throw new Error(`${failed ? 'failed' : 'did not fail'}:\n${typed}\n${lastOutput}`);
      } else {
        for (const line of (answer ?? '').trim().split('\n'))
          if (!patternOf(line).test(lastOutput))
            throw new Error(`no "${line}" in the answer:\n${lastOutput}`);
      }
    }
  } finally {
    shell.close();
  }
  if (idle.size > 0) throw new Error(`the page does not ask for: ${[...idle].join(', ')}`);
}

/**
 * Replaces `clickhouse-client`, which test machines do not have, by an HTTP request to `$CLICKHOUSE`. With `--host`, the request
 * goes to this node of a cluster, with the account `$ACCOUNT` (`user:password`). Without `--query`, the script reads the statement
 * from standard input.
 */
export const CLICKHOUSE_CLIENT = {
  'clickhouse-client': `if [ "$1" = --host ]; then CLICKHOUSE="http://$ACCOUNT@$2/"; shift 2; fi
curl -sS --fail-with-body "$CLICKHOUSE" --data-binary "\${2:-@-}"`,
};

/** Replaces commands of a page by shell scripts. @returns the PATH with the scripts. */
export function replaceCommands(folder: string, commands: Readonly<Record<string, string>>): string {
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

/** Starts bash in the folder of the project, with standard output and standard error combined. */
function openShell(env: NodeJS.ProcessEnv): {
  type(block: string): Promise<{ output: string; failed: boolean }>;
  /** Kills the shell and its processes. */
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
      // The block has no standard input, because it would otherwise read the following blocks.
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
        // The shell has already exited.
      }
    },
  };
}
