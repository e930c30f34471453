/**
 * Tests the packed client on its supported versions of Node and in Chromium. The network is faulty, and processes are killed.
 * Every event must be stored once.
 */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import type { Browser } from 'playwright-core';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest';
import { type BadNetwork, badNetwork, FAULTS, type Fault } from './badNetwork.ts';
import { eventually, type TestProject } from './builders.ts';
import { describeInChromium, launchChromium } from './chromium.ts';
import { installClient, nodeOfMajor, type Played, type Printed, play } from './packedClient.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
const faults = Object.keys(FAULTS) as Fault[];
let folder: string;
const DIST = (): string => join(folder, 'node_modules/@questlog/client/dist');

beforeAll(() => {
  folder = installClient();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('the core is one module of less than 7 kB, gzipped', () => {
  const core = readFileSync(join(DIST(), 'client.js'));

  expect(core.toString()).not.toMatch(/\bimport\b|\bfrom\s*["']/);
  expect(gzipSync(core).length).toBeLessThan(7_000);
});

test('the package can be published: license, readme, and valid exports', async () => {
  const pkgDir = join(DIST(), '..');
  expect(readdirSync(pkgDir).sort()).toEqual(['LICENSE', 'README.md', 'dist', 'package.json']);

  const { messages, pkg } = await publint({ pkgDir, pack: false, strict: true });
  expect(messages.map((message) => formatMessage(message, pkg))).toEqual([]);
});

test('a TypeScript project can use every module of the package', () => {
  const source = `
    import { type Game, start } from '@questlog/client';
    import { noteAutomatically } from '@questlog/client/automatic';
    import { fileQueue } from '@questlog/client/file';
    import { indexedDbQueue } from '@questlog/client/indexeddb';
    const build = { version: '1.4.2', platform: 'Web' };
    export const games: Promise<Game>[] = [fileQueue('queue'), indexedDbQueue()].map((queue) => start({ url: 'http://127.0.0.1', token: 't', build, queue }));
    for (const game of games) noteAutomatically(await game);`;
  writeFileSync(join(folder, 'consumer.ts'), source);
  const tsc = fileURLToPath(new URL('../../node_modules/.bin/tsc', import.meta.url));
  const options = '--noEmit --strict --module nodenext --target es2022 --lib es2023,dom consumer.ts'.split(
    ' ',
  );
  const { stdout, status } = spawnSync(tsc, options, { cwd: folder, encoding: 'utf8' });
  expect({ stdout, status }).toEqual({ stdout: '', status: 0 });
});

describe.concurrent.each([24, 20])('on Node %d', (major) => {
  const node = nodeOfMajor(major) ?? '';

  test('recorded events are stored once, in order, if two of three requests fail in changing ways', async (context) => {
    if (node === '') return context.skip(`Node ${major} is not on the PATH`);
    const game = await shared.aProject({ revision: 'A' });
    const network = await aNetwork(context, (request) =>
      request % 3 === 0 ? undefined : faultOfTurn(request),
    );
    const played = play(folder, node, { ...aRun(game, network), events: 50, pad: 'é'.repeat(100) });

    expect(await played.ended).toBe(0);
    expect(network.requests).toBeGreaterThan(2 * faults.length);
    expect(played.printed.at(-1)?.counts).toEqual({
      queued: 0,
      sent: 50,
      refused: 0,
      dropped: 0,
      uncertain: 0,
    });
    await expectStored(game, [played]);
  });
});

// Runs on one version of Node only. The file of the queue is the same on every version, and each kill costs a start.
test('events recorded before each of several kills are stored once, in order', async (context) => {
  const game = await shared.aProject({ revision: 'B' });
  const runs: Played[] = [];
  for (const [run, fault] of faults.entries()) {
    const network = await aNetwork(context, (request) => (request > 2 + run ? fault : undefined));
    const played = play(folder, process.execPath, { ...aRun(game, network), events: 60 });
    await eventually(
      async () => network.requests,
      (requests) => requests > 3 + run,
    );
    played.child.kill('SIGKILL');
    await played.ended;
    runs.push(played);
  }
  const network = await aNetwork(context, () => undefined);
  const last = play(folder, process.execPath, { ...aRun(game, network), events: 10 });

  expect(await last.ended).toBe(0);
  await expectStored(game, [...runs, last]);
});

describeInChromium('in a browser', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());

  test('events of closed pages are stored once, in order, also if requests fail', async (context) => {
    const game = await shared.aProject({ revision: 'A' });
    const network = await aNetwork(context, (request) =>
      request % 2 === 0 ? faultOfTurn(request / 2) : undefined,
    );
    const site = await aSite(context);
    const visitor = await browser.newContext();
    context.onTestFinished(() => visitor.close());
    const runs: { printed: Printed[] }[] = [];
    const openPage = await visitor.newPage();
    await openPage.goto(site);
    let isOver = false;
    const outage = await aNetwork(context, () => (isOver ? undefined : 'lostRequest'));
    runs.push({ printed: await openPage.evaluate(recordEvents(game, outage)) });
    for (let run = 0; run < 4; run += 1) {
      const page = await visitor.newPage();
      await page.goto(site);
      const printed: Printed[] = await page.evaluate(recordEvents(game, network));
      runs.push({ printed });
      // Every second page closes without a flush. Its events are sent when the page closes, or by the next page.
      if (run % 2 === 1) await eventually(() => page.evaluate<boolean>('window.game.flush()'), Boolean);
      await page.close();
    }
    const page = await visitor.newPage();
    await page.goto(site);
    runs.push({ printed: await page.evaluate(recordEvents(game, network)) });
    isOver = true;
    // Flushes both open pages. The next page sends the events of a closed page, but an open page sends its own events.
    for (const each of [page, openPage]) {
      await eventually(() => each.evaluate<boolean>('window.game.flush()'), Boolean);
    }

    expect(await page.evaluate('window.game.counts')).toMatchObject({
      queued: 0,
      refused: 0,
      dropped: 0,
      uncertain: 0,
    });
    await expectStored(game, runs);

    const filed: string = await eventually(
      () => page.evaluate(FILE_REPORT_WITH_LOG),
      (id) => id !== undefined,
    );
    expect((await game.get(`/v1/reports/${filed}`)).json()).toMatchObject({
      report: { title: 'with a log' },
      attachments: [{ fileName: 'game.log', state: 'stored', sizeBytes: 8 }],
    });
  });
});

const FILE_REPORT_WITH_LOG = `(async () => {
  const log = new Blob(['it fell.'], { type: 'text/plain' });
  const named = { attachmentType: 'log_bundle', fileName: 'game.log' };
  const file = await window.game.upload(log, named).catch(() => undefined);
  return file && window.game.report({ title: 'with a log', attachments: [file] });
})()`;

/** Returns code that records 30 events and a report. The code returns a list of the recorded entries. */
function recordEvents({ token }: TestProject, { url }: BadNetwork): string {
  return `(async () => {
    const { start } = await import('/client.js');
    const { indexedDbQueue } = await import('/indexedDb.js');
    const printed = [];
    const onProblem = (problem) => printed.push({ problem });
    const game = await start({ url: '${url}', token: '${token}', queue: indexedDbQueue(), onProblem });
    window.game = game;
    printed.push({ session: game.sessionId });
    for (let n = 1; n <= 30; n += 1) {
      game.event('n', { n });
      printed.push({ n });
    }
    game.report({ title: 'stuck' });
    printed.push({ title: 'stuck' });
    return printed;
  })()`;
}

/** Starts a server for a page and the modules of the package. @returns the URL of the page */
async function aSite({ onTestFinished }: TestContext): Promise<string> {
  const server = createServer(({ url = '' }, response) => {
    const isModule = url.endsWith('.js');
    response.setHeader('Content-Type', isModule ? 'text/javascript' : 'text/html');
    response.end(isModule ? readFileSync(join(DIST(), url)) : '<!doctype html><title>A game</title>');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void server.close());
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/`;
}

function faultOfTurn(turn: number): Fault | undefined {
  return faults[turn % faults.length];
}

/** Returns the options of a run. Each project has its own file for the queue. */
function aRun(game: TestProject, { url }: BadNetwork) {
  return { url, token: game.token, path: join(folder, `queue-${game.projectId}`) };
}

async function aNetwork(
  { onTestFinished }: TestContext,
  faultOf: (request: number) => Fault | undefined,
): Promise<BadNetwork> {
  const network = await badNetwork(shared.product.credentials.baseUrl, faultOf);
  onTestFinished(() => network.close());
  return network;
}

interface Row {
  readonly session: string;
  readonly n: number;
  readonly sequence: number;
}

/** Compares the events that the client recorded with the rows in ClickHouse and with the order of the events in the log. */
async function expectStored(
  game: TestProject,
  runs: readonly { printed: readonly Printed[] }[],
): Promise<void> {
  const recorded = runs.flatMap(({ printed }) => numbersOf(printed));
  const rows = await eventually(
    () => rowsOf(game),
    (all) => all.length >= recorded.length,
  );
  const stored = rows.map(({ session, n }) => `${session} ${n}`);
  expect(stored.length - new Set(stored).size, 'events stored more than once').toBe(0);
  expect(
    recorded.filter((one) => !stored.includes(one)),
    'lost events',
  ).toEqual([]);
  for (const [session, its] of Map.groupBy(rows, ({ session }) => session)) {
    expect(its.map(({ n }) => n)).toEqual(its.map((_, i) => i + 1));
    expect(its.map(({ sequence }) => sequence)).toEqual(its.map((_, i) => i + 1));
    expect((await game.get(`/v1/sessions/${session}`)).json().sequence.missing).toEqual([]);
  }
  const titles = runs.flatMap(({ printed }) =>
    printed.flatMap(({ title, filed }) => (filed ? [] : (title ?? []))),
  );
  const { reports } = (await game.get('/v1/reports?limit=1000')).json();
  const filed: string[] = reports.map(
    ({ sessionId, report }: ListedReport) => `${sessionId} ${report.title}`,
  );
  expect(filed.length - new Set(filed).size, 'reports filed more than once').toBe(0);
  expect(filed.length).toBeGreaterThanOrEqual(titles.length);
  const problems = runs.flatMap(({ printed }) => printed.flatMap(({ problem }) => problem ?? []));
  expect(problems.filter(({ kind }) => kind !== 'unreachable' && kind !== 'reached')).toEqual([]);
}

interface ListedReport {
  readonly sessionId: string;
  readonly report: { readonly title: string };
}

function numbersOf(printed: readonly Printed[]): string[] {
  const session = printed[0]?.session ?? '';
  return printed.flatMap(({ n }) => (n === undefined ? [] : [`${session} ${n}`]));
}

/** Returns the events of the project in the order of the log. */
async function rowsOf({ projectId }: TestProject): Promise<Row[]> {
  return await shared.product.sql<Row>(
    `SELECT toString(session_id) AS session, JSONExtractUInt(payload, 'n') AS n, toUInt32(sequence) AS sequence
     FROM events FINAL WHERE project_id = '${projectId}' ORDER BY log_partition, log_offset, log_index`,
  );
}
