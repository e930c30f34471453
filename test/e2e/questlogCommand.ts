/** The command `questlog` in a process of its own, as somebody types it. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { onTestFinished, test, vi } from 'vitest';
import type { TestProject } from './builders.ts';
import { collectOutput, type Output, ownEnvironment, type Reached } from './product.ts';

export const LAUNCHER = fileURLToPath(new URL('../../services/cli/questlog.mjs', import.meta.url));

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** With no other setting of the product than these. */
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
  /** The exit code, once everything it wrote is there; null after a signal that it did not take. */
  ended(): Promise<number | null>;
}

/** One that goes on until it is stopped, and ends with the test. */
export function running(args: readonly string[], env: Readonly<Record<string, string>>): Running {
  const child = spawn(process.execPath, [LAUNCHER, ...args], { env: { ...ownEnvironment(), ...env } });
  onTestFinished(() => void child.kill('SIGKILL'));
  const closed = once(child, 'close');
  return { child, output: collectOutput(child), ended: async () => (await closed)[0] };
}

export interface Terminal {
  type(keys: string): void;
  readonly screen: () => string;
  /** Resolves once the screen has shown it, after what was awaited before. */
  shows(what: string | RegExp): Promise<string>;
  /** Of the command; whatever it has shown is the screen. */
  ended(): Promise<{ code: number; screen: string }>;
}

const hasPython = spawnSync('python3', ['-c', 'import os, pty; os.waitstatus_to_exitcode']).status === 0;
if (!hasPython) {
  const lack = 'a terminal needs python3, 3.9 or newer';
  if (process.env['QUESTLOG_REQUIRE']?.includes('python')) throw new Error(`QUESTLOG_REQUIRE: ${lack}`);
  console.warn(`skipped: ${lack}`);
}

/** Skipped where there is no Python. */
export const testAtTerminal = test.skipIf(!hasPython);

/** Python's pseudo terminal around the command; Node has none. */
const PSEUDO_TERMINAL = 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))';

/** The command at a terminal, which ends with the test. */
export function atTerminal(args: readonly string[], env: Readonly<Record<string, string>>): Terminal {
  const command = ['-c', PSEUDO_TERMINAL, process.execPath, LAUNCHER, ...args];
  // Node draws no colours where CI says that nobody looks.
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

/** The settings that lead to the product by its addresses; the folder is one that no product was started on. */
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

/** Another server than Questlog, until the end of the test. */
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
