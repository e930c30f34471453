/** The packed client on the Nodes that it promises, through a network that breaks, and killed: all is stored, once. */
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type BadNetwork, badNetwork, FAULTS, type Fault } from './badNetwork.ts';
import { eventually, type TestProject } from './builders.ts';
import { installClient, nodeOfMajor, type Played, type Printed, play } from './packedClient.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
const faults = Object.keys(FAULTS) as Fault[];
let folder: string;

beforeAll(() => {
  folder = installClient();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('the core is one module of less than 6 kB, gzipped', () => {
  const core = readFileSync(join(folder, 'node_modules/@questlog/client/dist/client.js'));

  expect(core.toString()).not.toMatch(/\bimport\b|\bfrom\s*["']/);
  expect(gzipSync(core).length).toBeLessThan(6_000);
});

describe.each([24, 20])('on Node %d', (major) => {
  const node = nodeOfMajor(major) ?? '';

  test.for(faults)(
    'what is noted is stored once, in order, where each other time %s',
    async (fault, context) => {
      if (node === '') return context.skip(`there is no Node ${major} on the PATH`);
      const game = await shared.aProject({ revision: 'A' });
      const network = await aNetwork((request) => (request % 2 === 1 ? fault : undefined));
      const played = play(folder, node, { ...aRun(game, network), events: 60, pad: 'é'.repeat(100) });

      expect(await played.ended).toBe(0);
      expect(played.printed.at(-1)?.counts).toEqual({
        queued: 0,
        sent: 60,
        refused: 0,
        dropped: 0,
        uncertain: 0,
      });
      await expectStored(game, [played]);
    },
  );

  test('what was noted before each of several kills is stored once, in order', async (context) => {
    if (node === '') return context.skip(`there is no Node ${major} on the PATH`);
    const game = await shared.aProject({ revision: 'B' });
    const runs: Played[] = [];
    for (const [run, fault] of faults.entries()) {
      const network = await aNetwork((request) => (request > 2 + run ? fault : undefined));
      const played = play(folder, node, { ...aRun(game, network), events: 200 });
      await eventually(
        async () => network.requests,
        (requests) => requests > 3 + run,
      );
      played.child.kill('SIGKILL');
      await played.ended;
      runs.push(played);
    }
    const network = await aNetwork(() => undefined);
    const last = play(folder, node, { ...aRun(game, network), events: 10 });

    expect(await last.ended).toBe(0);
    await expectStored(game, [...runs, last]);
  });
});

/** The queue's file is the project's. */
function aRun(game: TestProject, { url }: BadNetwork) {
  return { url, token: game.token, path: join(folder, `queue-${game.projectId}`) };
}

async function aNetwork(faultOf: (request: number) => Fault | undefined): Promise<BadNetwork> {
  const network = await badNetwork(shared.product.credentials.baseUrl, faultOf);
  onTestFinished(() => network.close());
  return network;
}

interface Row {
  readonly session: string;
  readonly n: number;
  readonly sequence: number;
}

/** The ledger: what the games were given back as noted, beside what the log's order and ClickHouse tell. */
async function expectStored(game: TestProject, runs: readonly Played[]): Promise<void> {
  const noted = runs.flatMap(({ printed }) => numbersOf(printed));
  const rows = await eventually(
    () => rowsOf(game),
    (all) => all.length >= noted.length,
  );
  const stored = rows.map(({ session, n }) => `${session} ${n}`);
  expect(stored.length - new Set(stored).size, 'stored twice').toBe(0);
  expect(
    noted.filter((one) => !stored.includes(one)),
    'lost',
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
  const filed: string[] = reports.map(({ sessionId, report }: Filed) => `${sessionId} ${report.title}`);
  expect(filed.length - new Set(filed).size, 'filed twice').toBe(0);
  expect(filed.length).toBeGreaterThanOrEqual(titles.length);
  expect(runs.flatMap(({ printed }) => printed.flatMap(({ problem }) => problem ?? []))).toEqual([]);
}

interface Filed {
  readonly sessionId: string;
  readonly report: { readonly title: string };
}

function numbersOf(printed: readonly Printed[]): string[] {
  const session = printed[0]?.session ?? '';
  return printed.flatMap(({ n }) => (n === undefined ? [] : [`${session} ${n}`]));
}

/** In the order of the log. */
async function rowsOf({ projectId }: TestProject): Promise<Row[]> {
  return await shared.product.sql<Row>(
    `SELECT toString(session_id) AS session, JSONExtractUInt(payload, 'n') AS n, toUInt32(sequence) AS sequence
     FROM events FINAL WHERE project_id = '${projectId}' ORDER BY log_partition, log_offset, log_index`,
  );
}
