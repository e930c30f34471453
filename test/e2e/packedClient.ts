/**
 * Runs `@questlog/client` as a game does. The package is installed from its tarball, and the process uses a given version of
 * Node.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const CLIENT = fileURLToPath(new URL('../../services/client', import.meta.url));

/**
 * A game that records events and files a report after every tenth event. It flushes its queue until the queue is empty. It
 * prints each event, report, and problem.
 */
const GAME = `
import { start } from '@questlog/client';
import { fileQueue } from '@questlog/client/file';

const { url, token, path, events, pad } = JSON.parse(process.argv[2]);
const print = (line) => process.stdout.write(JSON.stringify(line) + '\\n');
const game = await start({
  url, token, queue: fileQueue(path), maxBatchEvents: 20,
  build: { version: '1.4.2', platform: 'Node' },
  onProblem: (problem) => print({ problem }),
});
print({ session: game.sessionId });
for (let n = 1; n <= events; n += 1) {
  game.event('n', { n, pad });
  print({ n });
  if (n % 10 === 0) {
    const title = 'report ' + n;
    game.report({ title }).then((id) => print({ filed: id, title }));
    print({ title });
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
while (!(await game.flush())) await new Promise((resolve) => setTimeout(resolve, 20));
print({ counts: game.counts });
await game.end();
`;

/** A line of the output of the game. */
export interface Printed {
  readonly session?: string;
  readonly n?: number;
  readonly title?: string;
  readonly filed?: string;
  readonly problem?: { readonly kind: string };
  readonly counts?: Record<string, number>;
}

export interface PlayOptions {
  readonly url: string;
  readonly token: string;
  /** Path of the file with the queue. */
  readonly path: string;
  readonly events: number;
  /** Text that is added to the payload of each event, so that events are large. */
  readonly pad?: string;
}

export interface Played {
  readonly child: ChildProcess;
  readonly printed: Printed[];
  /** Resolves with the exit code when the process has ended. The exit code is null if the process was killed. */
  readonly ended: Promise<number | null>;
}

/** Installs the package in a new project. Returns the folder of the project. */
export function installClient(): string {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-game-'));
  const tarball = execFileSync('npm', ['pack', '--silent', '--pack-destination', folder], {
    cwd: CLIENT,
    encoding: 'utf8',
  }).trim();
  writeFileSync(join(folder, 'package.json'), '{"name":"a-game","private":true,"type":"module"}');
  execFileSync('npm', ['install', '--offline', '--no-audit', '--no-fund', '--silent', `./${tarball}`], {
    cwd: folder,
  });
  writeFileSync(join(folder, 'game.js'), GAME);
  return folder;
}

/** Starts the game. @param node the path of the Node that runs the game */
export function play(folder: string, node: string, options: PlayOptions): Played {
  const child = spawn(node, [join(folder, 'game.js'), JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const printed: Printed[] = [];
  let rest = '';
  child.stdout.on('data', (chunk: Buffer) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    printed.push(...lines.map((line) => JSON.parse(line)));
  });
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  return { child, printed, ended };
}

/**
 * Returns the path of a Node with this major version. Searches the running Node and the PATH. Undefined if there is no such
 * Node.
 */
export function nodeOfMajor(major: number): string | undefined {
  const candidates = [
    process.execPath,
    ...(process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, 'node')),
  ];
  return candidates.find((node) => {
    const version = spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout ?? '';
    return version.startsWith(`v${major}.`);
  });
}
