/**
 * The code on the pages for Unity and Unreal, compiled and played against the product; the samples of `/docs`, compiled. The
 * engines are not here: what the pages use of them stands in `unityEngine.cs` and `unrealEngine.h`.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { openApi } from '@questlog/ingest/http/openapi/openapi';
import { expect, onTestFinished, test } from 'vitest';
import { eventually, type ListedEvent } from '../e2e/builders.ts';
import { ownProduct } from '../e2e/sharedProduct.ts';
import { type Fate, frontOf } from './frontOfProduct.ts';
import { codeOf, findProgram } from './gamePages.ts';

const run = promisify(execFile);
const UNITY = fileURLToPath(new URL('unityEngine.cs', import.meta.url));
const UNREAL = fileURLToPath(new URL('unrealEngine.h', import.meta.url));

/** Of Unreal Engine, as the page includes them. */
const UNREAL_HEADERS = [
  'Containers/Ticker',
  'CoreMinimal',
  'Dom/JsonObject',
  'Engine/GameViewportClient',
  'HttpModule',
  'ImageUtils',
  'Interfaces/IHttpRequest',
  'Interfaces/IHttpResponse',
  'Kismet/GameplayStatics',
  'Serialization/JsonSerializer',
  'UnrealClient',
];

const EVENTS = 'POST /v1/ingest/events';
const REPORTS = 'POST /v1/ingest/reports';
const PUT = 'PUT /v1/uploads';
const CALLS = ['POST /v1/ingest/sessions', 'POST /v1/ingest/uploads', PUT, REPORTS, EVENTS];

const ENGINES = [
  {
    ...{ page: 'unity.md', language: 'csharp', platform: 'LinuxPlayer' },
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
    ...{ page: 'unreal.md', language: 'cpp', platform: 'Linux' },
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
/** Of the session, in place of the page's: what JSON and UTF-8 must not lose. In both languages it is written alike. */
const PLAYER = { name: 'plä"yer\\17', inCode: 'pl\\u00e4\\"yer\\\\17' };

type Engine = (typeof ENGINES)[number];

const shared = ownProduct();

test.for(ENGINES)(
  '$page: what is answered late, or not at all, is stored once',
  {
    timeout: 120_000,
  },
  async (engine, { skip }) => {
    if (findProgram(engine.compiler) === undefined) return skip(`there is no ${engine.compiler}`);
    const project = await shared.aProject({ revision: 'B' });
    const passed = await play(engine, project.token, (call, nth) => {
      if (nth === 0) return 'lost';
      if (nth === 1 && [EVENTS, REPORTS].includes(call)) return { status: 503, retryAfter: '1' };
      return nth === 2 && call === EVENTS ? { status: 429 } : 'answered';
    });

    const of = (call: string) => passed.filter((one) => one.call === call);
    expect(CALLS.map((call) => of(call).length)).toEqual([2, 2, 2, 3, 4]);
    for (const call of CALLS) expect(new Set(of(call).map(({ body }) => body)).size, call).toBe(1);
    expect(new Set(of(EVENTS).map(({ headers }) => headers['idempotency-key'])).size).toBe(1);
    for (const [, refused, again] of [of(EVENTS), of(REPORTS)]) {
      expect((again?.atMs ?? 0) - (refused?.atMs ?? 0)).toBeGreaterThan(990);
    }

    const { sessionId } = JSON.parse(of(REPORTS)[0]?.body ?? '');
    const { reports } = (await project.get(`/v1/reports?sessionId=${sessionId}`)).json();
    expect(reports).toHaveLength(1);
    const path = `/v1/reports/${reports[0].id}`;
    const linked = await eventually(
      async (): Promise<ListedEvent[]> => (await project.get(`${path}/events`)).json().events ?? [],
      ({ length }) => length > 0,
    );
    expect(linked).toMatchObject([{ eventType: 'checkpoint', payload: { level: 3 }, sequence: 1 }]);
    const { report, attachments, sequence } = (await project.get(path)).json();
    expect(report).toMatchObject({ title: 'Stuck in a wall', reporterType: 'player' });
    expect(attachments).toMatchObject([{ fileName: 'screenshot.png', state: 'stored', sizeBytes: 9 }]);
    expect(sequence).toEqual({ received: 1, highest: 1, missing: [] });
    const picture = (await project.get(`/v1/uploads/${attachments[0].uploadId}`)).bytes;
    expect(picture.toString('latin1')).toBe('\x89PNG\r\n\x1a\n\xff');
    const { events } = (await project.get(`/v1/events?sessionId=${sessionId}`)).json();
    expect(events).toHaveLength(1);
    const { sessions } = (
      await project.get(`/v1/players/${encodeURIComponent(PLAYER.name)}/sessions`)
    ).json();
    expect(sessions).toMatchObject([
      { id: sessionId, build: { version: '1.4.2', platform: engine.platform } },
    ]);
  },
);

test.for(ENGINES)(
  '$page: what is refused is not sent again, and nothing waits behind it',
  {
    timeout: 120_000,
  },
  async (engine, { skip }) => {
    if (findProgram(engine.compiler) === undefined) return skip(`there is no ${engine.compiler}`);
    const passed = await play(engine, 'no token', () => 'answered');
    expect(passed.map(({ call }) => call)).toEqual(CALLS.filter((call) => call !== PUT));
  },
);

test.for([
  {
    ...{ lang: 'C#', file: 'Samples.cs', compiler: 'mcs' },
    codeOf: (samples: readonly string[]) => `using System.Net.Http; using System.Text; using UnityEngine;
      class Telemetry : MonoBehaviour { public void ReportBug(string title) {} }
      class Samples {
        ${samples.map((code, i) => `async void Sample${i}(string url, string token) {\n${code}\n}`).join('\n')}
      }`,
    args: [
      '-langversion:7',
      '-out:samples.exe',
      '-r:System.Net.Http.dll',
      '-r:System.Runtime.Serialization.dll',
      UNITY,
    ],
  },
  {
    ...{ lang: 'C++', file: 'samples.cpp', compiler: 'g++' },
    codeOf: (samples: readonly string[]) => `#include "${UNREAL}"
      ${samples.map((code, i) => `void Sample${i}(const FString& Url, const FString& Token) {\n${code}\n}`).join('\n')}`,
    args: ['-std=c++20', '-fsyntax-only', '-Wno-deprecated-declarations'],
  },
])(
  'the samples in $lang of the OpenAPI document compile',
  { timeout: 120_000 },
  async ({ lang, file, compiler, codeOf, args }, { skip }) => {
    if (findProgram(compiler) === undefined) return skip(`there is no ${compiler}`);
    const folder = mkdtempSync(join(tmpdir(), 'questlog-samples-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const operations = Object.values(openApi('A').paths).flatMap((path) => Object.values(path));
    const samples = operations
      .flatMap((operation) => operation['x-codeSamples'] ?? [])
      .filter((sample) => sample.lang === lang);
    expect(samples.length).toBeGreaterThan(10);
    write(folder, { [file]: codeOf(samples.map(({ source }) => source)) });

    await run(compiler, [...args, file], { cwd: folder });
  },
);

/** @returns what the game has sent by the time that its events, which come last, are answered. */
async function play(
  { page, language, compile }: Engine,
  token: string,
  fateOf: (call: string, nth: number) => Fate,
) {
  const { baseUrl } = shared.product.credentials;
  const front = await frontOf(baseUrl, fateOf);
  const folder = mkdtempSync(join(tmpdir(), 'questlog-game-'));
  onTestFinished(() => {
    front.close();
    rmSync(folder, { recursive: true });
  });
  const code = codeOf(page, language).map((block) =>
    block
      .replace('https://telemetry.your-game.example', front.origin)
      .replace('<ACCESS_TOKEN>', token)
      .replace('player-17', () => PLAYER.inCode),
  );
  const [program = '', ...args] = await compile(folder, code);
  const game = spawn(program, args, { stdio: ['pipe', 'inherit', 'pipe'] });
  onTestFinished(() => void game.kill('SIGKILL'));
  let said = '';
  game.stderr.on('data', (chunk) => {
    said += chunk;
  });
  await eventually(
    async () => `${front.answered.at(-1)}; ${said}`,
    (last) => last.startsWith(EVENTS),
    60_000,
  );
  game.stdin.end();
  const [status] = await once(game, 'exit');
  expect(status, said).toBe(0);
  return front.passed;
}

function write(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
}
