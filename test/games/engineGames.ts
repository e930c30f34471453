/** Compiles and runs the games of the examples for Unity and Unreal, with a proxy in front of the product. */
import { type ChildProcessByStdio, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished } from 'vitest';
import { eventually } from '../e2e/builders.ts';
import { type FateOf, frontOf } from './frontOfProduct.ts';
import { exampleOf } from './gamePages.ts';

const run = promisify(execFile);
export const UNITY = fileURLToPath(new URL('unityEngine.cs', import.meta.url));
export const UNREAL = fileURLToPath(new URL('unrealEngine.h', import.meta.url));

/** Headers of Unreal Engine that the example includes. */
const UNREAL_HEADERS = [
  'Containers/Ticker',
  'CoreMinimal',
  'Dom/JsonObject',
  'Engine/GameViewportClient',
  'HAL/FileManager',
  'HttpManager',
  'HttpModule',
  'ImageUtils',
  'Interfaces/IHttpRequest',
  'Interfaces/IHttpResponse',
  'Kismet/GameplayStatics',
  'Misc/FileHelper',
  'Misc/Paths',
  'Serialization/JsonSerializer',
  'UnrealClient',
];

export const ENGINES = [
  {
    ...{ page: 'unity.md', files: ['unity/Questlog.cs', 'unity/Telemetry.cs'], platform: 'LinuxPlayer' },
    compiler: 'mcs',
    compile: async (folder: string, [questlog = '', game = '']: readonly string[]): Promise<string[]> => {
      const files = { 'Questlog.cs': questlog, 'Telemetry.cs': game };
      write(folder, files);
      const libraries = ['-r:System.Net.Http.dll', '-r:System.Runtime.Serialization.dll'];
      const sources = [...Object.keys(files), UNITY];
      await run('mcs', ['-langversion:7', ...libraries, '-out:game.exe', ...sources], { cwd: folder });
      return ['mono', join(folder, 'game.exe')];
    },
  },
  {
    ...{ page: 'unreal.md', files: ['unreal/Questlog.h', 'unreal/Telemetry.cpp'], platform: 'Linux' },
    compiler: 'g++',
    compile: async (folder: string, [questlog = '', game = '']: readonly string[]): Promise<string[]> => {
      const headers = UNREAL_HEADERS.map((name) => [`${name}.h`, `#include "${UNREAL}"\n`]);
      write(folder, { ...Object.fromEntries(headers), 'Questlog.h': questlog, 'game.cpp': game });
      const warnings = [
        '-Wall',
        '-Wextra',
        '-Werror',
        '-Wno-unused-parameter',
        '-Wno-deprecated-declarations',
      ];
      await run('g++', ['-std=c++20', ...warnings, '-I.', 'game.cpp', '-o', 'game'], { cwd: folder });
      return [join(folder, 'game')];
    },
  },
];
export type Engine = (typeof ENGINES)[number];

/** A player name with characters that need escapes in JSON or UTF-8. Both languages use the same escapes. */
export const PLAYER = { name: 'plä"yer\\17', inCode: 'pl\\u00e4\\"yer\\\\17' };
/** The address in a game's settings, with its opening quote. */
export const ADDRESS = /(?<=Questlog(?:>\(TEXT)?\(")https:[^"]+/;

export type Built = Awaited<ReturnType<typeof build>>;

/** Compiles the game of an example with the address of a proxy in front of the product. */
export async function build(
  { files: sources, compile }: Engine,
  { baseUrl, token }: { readonly baseUrl: string; readonly token: string },
  edit: (code: string) => string = (code) => code,
) {
  const front = await frontOf(baseUrl);
  const folder = mkdtempSync(join(tmpdir(), 'questlog-game-'));
  const code = sources.map((file) =>
    edit(exampleOf(file))
      .replace(ADDRESS, front.origin)
      .replace('<ACCESS_TOKEN>', token)
      .replace('player-17', () => PLAYER.inCode),
  );
  const [program = '', ...args] = await compile(folder, code);
  return {
    remove: () => {
      front.close();
      rmSync(folder, { recursive: true });
    },
    /** Creates a device. Each start of the game on the device uses the queue of the previous start. */
    begin: (fateOf: FateOf) => {
      front.begin(fateOf);
      const cwd = mkdtempSync(join(folder, 'device-'));
      const queue = join(cwd, 'questlog');
      /** The kinds of the files in the queue. */
      const files = (): string[] =>
        (existsSync(queue) ? readdirSync(queue) : []).map((name) => name.split('.').at(-1) ?? '').sort();
      const start = () => playing(spawn(program, args, { cwd, stdio: ['pipe', 'inherit', 'pipe'] }));
      const bytes = (): number =>
        readdirSync(queue).reduce((sum, name) => sum + statSync(join(queue, name)).size, 0);
      return { front, cwd, files, bytes, start };
    },
  };
}

/** A running game and its log. */
function playing(child: ChildProcessByStdio<Writable, null, Readable>) {
  let log = '';
  child.stderr.on('data', (chunk) => {
    log += chunk;
  });
  const exit = once(child, 'exit');
  onTestFinished(() => void child.kill('SIGKILL'));
  return {
    log: () => log,
    until: (isSo: (log: string) => boolean) =>
      eventually(
        async () => log,
        () => isSo(log),
        20_000,
      ),
    /** Quits the game. @returns the time that the game takes to end, in milliseconds. */
    quit: async (): Promise<number> => {
      const beganMs = performance.now();
      child.stdin.end();
      const [status] = await exit;
      expect(status, log).toBe(0);
      return performance.now() - beganMs;
    },
    kill: async (): Promise<void> => {
      child.kill('SIGKILL');
      await exit;
    },
  };
}

export function write(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
}
