/** Tests the retention of a project, from the command of an operator to the deleted rows, the remaining rows, and the recount. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { dropExpired } from '@questlog/operations/retention/retention';
import { openStore } from '@questlog/runtime/clickhouse/store';
import type { Project } from '@questlog/schemas/topics/directoryEntry';
import { expect, onTestFinished, test } from 'vitest';
import { events, eventually, RECOUNT_WITHIN_MS, type TestProject } from './builders.ts';
import { questlogCommand, reaching } from './questlogCommand.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
const DAY_MS = 86_400_000;

test('deletes expired rows, and keeps other projects’ rows, counts, and the quota; a recount finds no difference', {
  timeout: RECOUNT_WITHIN_MS,
}, async () => {
  const short = await shared.aProject({ revision: 'B' });
  const long = await shared.aProject({ revision: 'B', tenantId: short.tenantId });
  await short.post(events(3));
  await long.post(events(2));
  const command = commands(short);
  await command(['projects', 'set', short.projectId, '--retention', 'events=1,sessions=none']);
  const known = await projects();
  expect(known.get(short.projectId)).toMatchObject({
    retentionDays: { events: 1, sessions: null, reports: null, links: null, uploads: null },
  });
  expect(known.get(long.projectId)).toMatchObject({ retentionDays: null });
  expect(
    await eventually(
      () => rows(short),
      ([inTable, , counted]) => inTable === 5 && counted === 5,
    ),
  ).toEqual([5, 3, 5]);
  expect(await cost(command, short)).toMatchObject({ what: 'events', days: 1, rows: 3 });

  // Runs the retention as the product does, with a clock that is two days ahead.
  await using store = aStore();
  const clock = { now: () => Date.now() + 2 * DAY_MS };
  const own = new Map([short, long].map(({ projectId }) => [projectId, known.get(projectId) as Project]));
  const dropped = await dropExpired({
    ...{
      store,
      uploads: undefined,
      projects: own,
      clock,
      logRetentionMs: async () => 30 * DAY_MS,
      caughtUp: async () => {},
    },
    playerKey: async () => ({ id: 1, bytes: Buffer.alloc(32) }),
  });

  expect(dropped).toMatchObject([{ what: 'events', projectId: short.projectId }]);
  expect(await rows(short)).toEqual([2, 0, 5]);
  expect((await short.get('/v1/quota')).json().used).toBe(5);
  expect((await short.get('/v1/events')).json().events).toEqual([]);
  expect((await long.get('/v1/events')).json().events).toHaveLength(2);
  const verified = await command(['verify', '--from', '10m', '--tenant', short.tenantId, '--json']);
  expect(JSON.parse(verified)).toMatchObject({
    ...{ projected: { records: 1, events: 2 }, pastRetention: { records: 1, events: 3 }, differences: 0 },
  });
  expect(await cost(command, short)).toMatchObject({ rows: 0, bytesAMonth: 0 });
  expect(await command(['retention'])).toMatch(/^events +by project +[\d,]+ +[\d,]+ +[\d,]+$/m);
});

test('keeps omitted retention days, removes days that are null, and names the limits', async () => {
  const { projectId } = await shared.aProject();
  const patch = async (retentionDays: unknown) =>
    await shared.product.admin('PATCH', `/admin/projects/${projectId}`, { retentionDays });
  const none = { events: null, sessions: null, reports: null, links: null, uploads: null };

  expect((await patch({ events: 30, uploads: 7 })).json().retentionDays).toEqual({
    ...none,
    events: 30,
    uploads: 7,
  });
  expect((await patch({ uploads: null, links: 9 })).json().retentionDays).toEqual({
    ...none,
    events: 30,
    links: 9,
  });
  for (const [bad, said] of [
    [0, '1'],
    [36_501, '36500'],
    [1.5, 'a whole number'],
  ] as const) {
    const refused = await patch({ events: bad });
    expect(refused.status).toBe(400);
    expect(refused.json().errors[0]).toMatchObject({
      ...{ pointer: '/retentionDays/events', detail: expect.stringContaining(said) },
    });
  }
  // Sessions may have a shorter retention than events.
  expect((await patch({ sessions: 1 })).json().retentionDays).toEqual({
    ...none,
    events: 30,
    links: 9,
    sessions: 1,
  });
  expect((await patch({ sessions: 30, reports: 9, uploads: 9 })).status).toBe(200);
  await patch({ sessions: null, reports: null, uploads: null });
  expect((await patch({ evens: 1 })).json().errors[0].pointer).toBe('/retentionDays/evens');
  expect((await patch({ events: null, links: null })).json().retentionDays).toBeNull();
  await patch({ events: 30 });
  expect((await patch(null)).json().retentionDays).toBeNull();
});

/** Returns three numbers of events: of the tenant, of the project, and of the tenant in the rollups. */
async function rows({ tenantId, projectId }: TestProject): Promise<number[]> {
  const [row] = await shared.product.sql<Record<string, number>>(
    `SELECT toUInt32(count()) AS a, toUInt32(countIf(project_id = '${projectId}')) AS b, (
       SELECT toUInt32(sum(count)) FROM event_counts_by_minute WHERE tenant_id = '${tenantId}'
     ) AS c FROM events WHERE tenant_id = '${tenantId}'`,
  );
  return Object.values(row ?? {});
}

async function projects(): Promise<Map<string, Project>> {
  const all: Project[] = (await shared.product.admin('GET', '/admin/projects')).json();
  return new Map(all.map((project) => [project.id, project]));
}

function aStore() {
  const { url, database, username, password } = shared.product.credentials.clickhouse;
  const store = openStore({ url, database, username, password });
  return { ...store, [Symbol.asyncDispose]: () => store.close() };
}

function commands(game: TestProject): (args: readonly string[]) => Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'questlog-retention-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const env = reaching(shared.product, game, folder);
  return async (args) => {
    const { code, stdout, stderr } = await questlogCommand(args, { env });
    expect({ code, stderr }).toMatchObject({ code: 0 });
    return stdout;
  };
}

async function cost(command: ReturnType<typeof commands>, { projectId }: TestProject): Promise<object> {
  const { tables } = JSON.parse(await command(['retention', '--project', projectId, '--json']));
  return tables[0];
}
