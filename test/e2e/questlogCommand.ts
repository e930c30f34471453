/** Runs the command `questlog` in a separate process. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { failIfRequired } from '@questlog/runtime/process/testing/required';
import { onTestFinished, test, vi } from 'vitest';
import type { TestProject } from './builders.ts';
import { collectOutput, type Output, ownEnvironment, type Reached } from './product.ts';

export const LAUNCHER = fileURLToPath(new URL('../../services/cli/questlog.mjs', import.meta.url));

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command with only the given settings. */
export async function questlogCommand(
  args: readonly string[],
  { input = '', env = {} }: { input?: string; env?: Readonly<Record<string, string>> } = {},
): Promise<Ended> {
  const child = spawn(process.execPath, [LAUNCHER, ...args], { env: { ...ownEnvironment(), ...env } });
  child.stdin.end(input);
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ]);
  return { code, stdout, stderr };
}

export interface Running {
  readonly child: ChildProcess;
  readonly output: Output;
  /** Resolves with the exit code after all output has arrived. The exit code is null if a signal ended the process. */
  ended(): Promise<number | null>;
}

/** Starts a command that does not end by itself. The end of the test kills the command. */
export function running(args: readonly string[], env: Readonly<Record<string, string>>): Running {
  const child = spawn(process.execPath, [LAUNCHER, ...args], { env: { ...ownEnvironment(), ...env } });
  onTestFinished(() => void child.kill('SIGKILL'));
  const closed = once(child, 'close');
  return { child, output: collectOutput(child), ended: async () => (await closed)[0] };
}

export interface Terminal {
  type(keys: string): void;
  readonly screen: () => string;
  /** Resolves when the screen shows the text. Searches only after the text that was found before. */
  shows(what: string | RegExp): Promise<string>;
  /** Resolves with the exit code and the whole text of the screen. */
  ended(): Promise<{ code: number; screen: string }>;
}

const hasPython = spawnSync('python3', ['-c', 'import os, pty; os.waitstatus_to_exitcode']).status === 0;
if (!hasPython) {
  const lack = 'a terminal needs python3, 3.9 or newer';
  failIfRequired('python', lack);
  console.warn(`skipped: ${lack}`);
}

/** Declares a test that is skipped if Python is missing. */
export const testAtTerminal = test.skipIf(!hasPython);

/** Python program that runs the command in a pseudo terminal, because Node has no pseudo terminals. */
const PSEUDO_TERMINAL = 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))';

/** Starts the command in a pseudo terminal. The end of the test kills the command. */
export function atTerminal(args: readonly string[], env: Readonly<Record<string, string>>): Terminal {
  const command = ['-c', PSEUDO_TERMINAL, process.execPath, LAUNCHER, ...args];
  // Removes the variable CI, because Node prints no colors if the variable is set.
  const { CI: _, ...own } = ownEnvironment();
  const child = spawn('python3', command, { env: { ...own, TERM: 'xterm', ...env } });
  onTestFinished(() => void child.kill('SIGKILL'));
  const closed = once(child, 'close');
  let screen = '';
  let seen = 0;
  child.stdout.on('data', (piece: Buffer) => {
    screen += piece.toString();
  });
  return {
    screen: () => screen,
    type: (keys) => void child.stdin.write(keys),
    shows: (what) =>
      vi.waitFor(
        () => {
          const at = positionOf(what, screen.slice(seen));
          if (at < 0) throw new Error(`${what} is not in ${JSON.stringify(screen.slice(seen))}`);
          const shown = screen.slice(seen);
          seen += at + 1;
          return shown;
        },
        { timeout: 10_000 },
      ),
    ended: async () => {
      const [code] = await closed;
      return { code, screen };
    },
  };
}

function positionOf(what: string | RegExp, text: string): number {
  return typeof what === 'string' ? text.indexOf(what) : text.search(what);
}

/** Returns settings with the addresses of the product. The data folder of the settings has no credentials. */
export function reaching(
  { credentials }: Reached,
  game: TestProject,
  dataDir: string,
): Record<string, string> {
  return {
    QUESTLOG_DATA_DIR: dataDir,
    QUESTLOG_ADMIN_URL: credentials.adminUrl,
    QUESTLOG_ADMIN_TOKEN: credentials.adminToken,
    QUESTLOG_URL: credentials.baseUrl,
    QUESTLOG_TOKEN: game.token,
  };
}

/** Starts a server that is not Questlog. The server runs until the end of the test. */
export async function aStranger(answer: RequestListener): Promise<string> {
  const server = createServer((request, response) => {
    request.resume();
    answer(request, response);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void server.close());
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
}
