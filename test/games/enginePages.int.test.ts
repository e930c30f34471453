/**
 * Compiles and runs the examples for Unity and Unreal, and compiles the samples of `/docs`. `unityEngine.cs` and
 * `unrealEngine.h` replace the parts of the engines that the examples use.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openApi } from '@questlog/ingest/http/openapi/openapi';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { eventually, type ListedEvent, type TestProject } from '../e2e/builders.ts';
import { ownProduct } from '../e2e/sharedProduct.ts';
import { ADDRESS, type Built, build, ENGINES, PLAYER, UNITY, UNREAL, write } from './engineGames.ts';
import type { Fate } from './frontOfProduct.ts';
import { findProgram } from './gamePages.ts';

const run = promisify(execFile);

const EVENTS = 'POST /v1/ingest/events';
const REPORTS = 'POST /v1/ingest/reports';
const UPLOADS = 'POST /v1/ingest/uploads';
const PUT = 'PUT /v1/uploads';
const SESSIONS = 'POST /v1/ingest/sessions';
const CALLS = [SESSIONS, EVENTS, UPLOADS, PUT, REPORTS];

/** The call that records an event. */
const RECORD = /[\w>.-]+Record\((?:TEXT\()?"checkpoint".*;/;

const shared = ownProduct();

describe.for(ENGINES)('$page', { timeout: 120_000 }, (engine) => {
  const isMissing = findProgram(engine.compiler) === undefined;
  let project: TestProject;
  let built: Built;
  const credentials = () => ({ ...shared.product.credentials, token: project.token });
  beforeAll(async () => {
    if (isMissing) return;
    project = await shared.aProject({ revision: 'B' });
    built = await build(engine, credentials());
  }, 120_000);
  afterAll(() => built?.remove());
  beforeEach(({ skip }) => skip(isMissing, `there is no ${engine.compiler}`));

  test('stores a call once if its response is late or missing', async () => {
    const { front, start } = built.begin((call, nth) => {
      if (nth === 0) return 'lost';
      if (nth === 1 && [EVENTS, REPORTS].includes(call)) return { status: 503, retryAfter: '1' };
      return nth === 2 && call === EVENTS ? { status: 429 } : 'answered';
    });
    const game = start();
    await game.until(() => front.answered.includes(REPORTS));
    await game.quit();

    const of = (call: string) => front.passed.filter((one) => one.call === call);
    expect(CALLS.map((call) => of(call).length)).toEqual([2, 4, 3, 2, 3]);
    for (const call of CALLS) expect(new Set(of(call).map(({ body }) => body)).size, call).toBe(1);
    expect(new Set(of(EVENTS).map(({ headers }) => headers['idempotency-key'])).size).toBe(1);
    for (const [, refused, again] of [of(EVENTS), of(REPORTS)]) {
      expect((again?.atMs ?? 0) - (refused?.atMs ?? 0)).toBeGreaterThan(990);
    }
    expect(game.log().match(/cannot reach|reached http/g)).toEqual(['cannot reach', 'reached http']);
    await expectStored(project, engine.platform, JSON.parse(of(REPORTS)[0]?.body ?? '').sessionId);
  });

  test('does not retry a call that Questlog rejects, and sends the calls after it', async () => {
    const body = JSON.stringify({ type: 'urn:questlog:problem:invalid_request', code: 'invalid_request' });
    const { front, start, files } = built.begin(() => ({ status: 400, body }));
    const game = start();
    await game.until(() => files().length === 0 && front.passed.length > 3);
    await game.quit();

    expect(front.passed.map(({ call }) => call)).toEqual(CALLS.filter((call) => call !== PUT));
  });

  test('keeps all calls after a response of another server or of the wrong listener', async () => {
    const { adminUrl } = shared.product.credentials;
    const elsewhere = await (await fetch(`${adminUrl}/v1/ingest/events`, { method: 'POST' })).text();
    const html = '<h1>Sign in</h1>';
    const answers: Fate[] = [404, 200, 403, 401, 413, 415].map((status) => ({ status, body: html }));
    answers.unshift({ status: 404, body: elsewhere });
    const { front, start } = built.begin(
      (call, nth) => (call === PUT ? undefined : answers[nth]) ?? 'answered',
    );
    const game = start();
    await game.until(() => CALLS.every((call) => front.answered.includes(call)));
    await game.quit();

    expect(game.log()).toContain("this is the operators' listener; games use port 8080");
    const report = front.passed.findLast(({ call }) => call === REPORTS);
    await expectStored(project, engine.platform, JSON.parse(report?.body ?? '').sessionId);
  });

  test('stops if the token is not valid, and keeps the queue', async () => {
    const body = JSON.stringify({ type: 'urn:questlog:problem:unauthorized', code: 'unauthorized' });
    const { front, start, files } = built.begin(() => ({ status: 401, body }));
    const game = start();
    await game.until((said) => said.includes('Questlog stops until the next start'));
    await game.quit();

    expect(front.passed).toHaveLength(1);
    expect(files()).toEqual(['events', 'png', 'reports', 'sessions']);
  });

  test('drops a report whose scope the token lacks, and sends the calls after it', async () => {
    const body = JSON.stringify({ type: 'urn:questlog:problem:forbidden', code: 'forbidden' });
    const { front, start, files } = built.begin((call) =>
      call === UPLOADS || call === REPORTS ? { status: 403, body } : 'answered',
    );
    const game = start();
    await game.until(() => files().length === 0 && front.passed.some(({ call }) => call === REPORTS));
    await game.quit();

    expect(game.log()).not.toContain('Questlog stops');
    expect(front.answered).toContain(EVENTS);
  });

  test('keeps the queue after a kill and with a server that never responds, and exits in time', async () => {
    let fate: Fate = 'dropped';
    const { front, start, files } = built.begin(() => fate);
    const killed = start();
    await killed.until(() => front.passed.length > 5);
    expect(killed.log().match(/cannot reach/g)).toHaveLength(1);
    await killed.kill();
    fate = 'held';
    const before = front.passed.length;
    const ended = start();
    await ended.until(() => front.passed.length > before);
    const tookMs = await ended.quit();
    expect(tookMs).toBeGreaterThan(1_500);
    expect(tookMs).toBeLessThan(5_000);
    expect(files().filter((kind) => kind !== 'png')).toEqual([
      ...['events', 'events', 'reports', 'reports', 'sessions', 'sessions'],
    ]);
    fate = 'answered';
    const last = start();
    await last.until(() => front.answered.filter((call) => call === REPORTS).length === 3);
    await last.quit();

    const reports = front.passed.filter(({ call }) => call === REPORTS);
    const sessions = new Set(reports.map(({ body }): string => JSON.parse(body).sessionId));
    expect(sessions.size).toBe(3);
    for (const session of sessions) await expectStored(project, engine.platform, session);
    expect(files()).toEqual([]);
  });

  test('sends later calls before a screenshot that fails, and files the report without it after three attempts', async () => {
    const { front, start, files } = built.begin((call, nth) => {
      if (call === UPLOADS && nth === 1) return { status: 503 };
      if (call !== PUT) return 'answered';
      if (nth === 0) return 'held';
      return nth % 2 === 0 ? 'dropped' : { status: 503 };
    });
    const ended = start();
    await ended.until(() => front.passed.some(({ call }) => call === PUT));
    await ended.quit();
    const next = start();
    await next.until(() => front.answered.filter((call) => call === REPORTS).length === 2);
    await next.quit();

    expect(front.passed.slice(0, 7).map(({ call }) => call)).toEqual([
      ...CALLS.slice(0, 4),
      ...[UPLOADS, ...CALLS.slice(0, 2)],
    ]);
    expect(CALLS.map((call) => front.passed.filter((one) => one.call === call).length)).toEqual([
      ...[2, 2, 7, 6, 2],
    ]);
    const reports = front.passed.filter(({ call }) => call === REPORTS).map(({ body }) => JSON.parse(body));
    expect(new Set(reports.map(({ sessionId }) => sessionId)).size).toBe(2);
    expect(reports.map(({ attachments }) => attachments)).toEqual([undefined, undefined]);
    expect(files()).toEqual([]);
  });

  test('stores the valid events of a batch, and drops and logs the rejected events', async () => {
    const rejected = (record: string): string => record.replace(/\{.*\}/, '7');
    const mixed = await build(engine, credentials(), (code) =>
      code
        .replace('MaxBatchEvents = 200', 'MaxBatchEvents = 2')
        .replace(RECORD, (record) => record + rejected(record).repeat(3)),
    );
    onTestFinished(mixed.remove);
    const { front, start, files } = mixed.begin(() => 'answered');
    const game = start();
    await game.until(() => front.answered.includes(REPORTS));
    await game.quit();

    expect(front.passed.filter(({ call }) => call === EVENTS)).toHaveLength(2);
    expect(game.log().match(/rejected events: .*urn:questlog:problem:field_type/g)).toHaveLength(2);
    const report = front.passed.find(({ call }) => call === REPORTS);
    await expectStored(project, engine.platform, JSON.parse(report?.body ?? '').sessionId);
    expect(files()).toEqual([]);
  });

  test('sends a batch again with the same key if a rate limit rejected some of its events', async () => {
    const limited = { type: 'urn:questlog:problem:rate_limited', code: 'rate_limited' };
    const body = JSON.stringify([{ id: crypto.randomUUID() }, limited]);
    const { front, start } = built.begin((call, nth) =>
      call === EVENTS && nth === 0 ? { status: 207, retryAfter: '1', body } : 'answered',
    );
    const game = start();
    await game.until(() => front.answered.includes(REPORTS));
    await game.quit();

    const [first, second] = front.passed.filter(({ call }) => call === EVENTS);
    expect(second?.body).toBe(first?.body);
    expect(second?.headers['idempotency-key']).toBe(first?.headers['idempotency-key']);
    expect((second?.atMs ?? 0) - (first?.atMs ?? 0)).toBeGreaterThan(990);
  });

  test('limits the bytes of a batch, so that a proxy with a limit of 1 MiB accepts the batch', async () => {
    const pad = 'x'.repeat(100_000);
    const large = await build(engine, credentials(), (code) =>
      code.replace(RECORD, (record) => {
        const padded = record.replace('level\\":3', `$&,\\"pad\\":\\"${pad}\\"`);
        return `for (int i = 0; i < 12; i++) ${padded}`;
      }),
    );
    onTestFinished(large.remove);
    const { front, start } = large.begin(() => 'answered');
    const game = start();
    await game.until(() => front.answered.includes(REPORTS));
    await game.quit();

    const batches = front.passed.filter(({ call }) => call === EVENTS).map(({ body }) => body);
    expect(batches.flatMap((body) => JSON.parse(body).map(sequenceOf))).toHaveLength(12);
    expect(batches).toHaveLength(2);
    expect(Math.max(...batches.map(({ length }) => length))).toBeLessThan(1 << 20);
  });

  test('bounds the queue: drops the oldest events, but no reports', async () => {
    const small = await build(engine, credentials(), (code) =>
      code.replace('32 << 20', '100000').replace(RECORD, 'for (int i = 0; i < 1000; i++) $&'),
    );
    onTestFinished(small.remove);
    let fate: Fate = 'dropped';
    const { front, start, files, bytes } = small.begin(() => fate);
    const killed = start();
    await killed.until((said) => said.includes('cannot reach'));
    await killed.kill();
    expect(killed.log()).toContain('the queue is full: the oldest events are dropped');
    expect(bytes()).toBeLessThanOrEqual(100_000);
    fate = 'answered';
    const last = start();
    await last.until(() => files().length === 0);
    await last.quit();

    const stored = front.passed.filter(({ call }) => call === EVENTS).slice(-10);
    const sequences = stored.flatMap(({ body }) => JSON.parse(body).map(sequenceOf));
    expect(sequences.at(-1)).toBe(1_000);
    expect(front.answered.filter((call) => call === REPORTS)).toHaveLength(2);
  });

  test('names an invalid address', async () => {
    const wrong = await build(engine, credentials(), (code) => code.replace(ADDRESS, 'hello'));
    onTestFinished(wrong.remove);
    const game = wrong.begin(() => 'answered').start();
    await game.until((said) =>
      /must be an address such as https:.*\burl\b|\burl must be an address such as/is.test(said),
    );
    await game.kill();
  });
});

test('Questlog.cs sends its queue after the clock of the device was set back', async ({ skip }) => {
  const [engine] = ENGINES;
  if (engine === undefined || findProgram(engine.compiler) === undefined) return skip('there is no mcs');
  const game = await build(engine, shared.product.credentials, (code) =>
    code.replaceAll('DateTime.UtcNow', '(DateTime.UtcNow.AddHours(File.Exists("back") ? -2 : 0))'),
  );
  onTestFinished(game.remove);
  const { front, cwd, start } = game.begin((call, nth) =>
    call === SESSIONS && nth === 0 ? { status: 503, retryAfter: '2' } : 'answered',
  );
  const played = start();
  await played.until((said) => said.includes('cannot reach'));
  write(cwd, { back: '' });
  await played.until(() => front.answered.includes(REPORTS));
  await played.quit();
});

const sequenceOf = ({ sequence }: { sequence: number }): number => sequence;

async function expectStored(project: TestProject, platform: string, sessionId: string): Promise<void> {
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
  const { sessions } = (await project.get(`/v1/players/${encodeURIComponent(PLAYER.name)}/sessions`)).json();
  expect(sessions.filter(({ id }: { id: string }) => id === sessionId)).toMatchObject([
    { build: { version: '1.4.2', platform } },
  ]);
}

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
