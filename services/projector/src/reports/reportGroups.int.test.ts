/** Tests the view `report_groups` with projected reports. Tests that all columns have comments. */
import { randomUUID } from 'node:crypto';
import { aSession } from '@questlog/schemas/fixtures/builders';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Bench, openBench } from '../testing/projectorBench.ts';
import { FILED_AT, inProject, type ProjectBench, retraction } from '../testing/reportBench.ts';

let bench: Bench;

beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());

test('a group counts the reports, builds, and players of a fingerprint, and has the title of the latest report', async () => {
  const on = inProject(bench);
  const [one, other] = [await aSessionOf(on, 'ann'), await aSessionOf(on, 'ben')];
  const nobody = await aSessionOf(on, null);
  const [build, newer] = [randomUUID(), randomUUID()];
  await on.appendReports(
    aReport(on, 'stuck', { sessionId: one, buildId: build, receivedAt: FILED_AT + 2_000 }, 'the latest'),
    aReport(on, 'stuck', { sessionId: one, buildId: newer, receivedAt: FILED_AT + 1_000 }),
    aReport(on, 'stuck', { sessionId: other, buildId: newer, receivedAt: FILED_AT }),
    aReport(on, 'stuck', { sessionId: nobody, receivedAt: FILED_AT + 1_500 }),
    aReport(on, 'stuck', { receivedAt: FILED_AT + 1_600 }),
    aReport(on, 'falls', { sessionId: other, buildId: build }),
    aReport(on, null, { sessionId: one, buildId: build }),
    on.aReport(),
  );
  await bench.projectAll(bench.store);

  expect(await groupsOf(on)).toEqual([
    {
      ...{ fingerprint: 'falls', title: 'a title', occurrences: '1', builds: '1', players: '1' },
      ...{ firstSeen: String(FILED_AT), lastSeen: String(FILED_AT) },
    },
    {
      ...{ fingerprint: 'stuck', title: 'the latest', occurrences: '5', builds: '2', players: '2' },
      ...{ firstSeen: String(FILED_AT), lastSeen: String(FILED_AT + 2_000) },
    },
  ]);
});

test('a retracted report does not count, and a group without reports is not shown', async () => {
  const on = inProject(bench);
  const [first, last] = [
    aReport(on, 'stuck', { receivedAt: FILED_AT }, 'the first'),
    aReport(on, 'stuck', { receivedAt: FILED_AT + 1 }, 'the last'),
  ];
  await on.appendReports(first, last, retraction(last));
  await bench.projectAll(bench.store);
  expect(await groupsOf(on)).toMatchObject([
    { occurrences: '1', title: 'the first', lastSeen: String(FILED_AT) },
  ]);

  await on.appendReports(retraction(first));
  await bench.projectAll(bench.store);
  expect(await groupsOf(on)).toEqual([]);
});

test('separates projects with the same fingerprint and the same session id', async () => {
  const [mine, theirs] = [inProject(bench), inProject(bench)];
  const sessionId = await aSessionOf(mine, 'ann');
  await mine.appendReports(aReport(mine, 'stuck', { sessionId }));
  await theirs.appendReports(aReport(theirs, 'stuck', { sessionId }), aReport(theirs, 'stuck', {}));
  await bench.projectAll(bench.store);

  expect(await groupsOf(mine)).toMatchObject([{ occurrences: '1', players: '1' }]);
  expect(await groupsOf(theirs)).toMatchObject([{ occurrences: '2', players: '0' }]);
});

test('every column of every table and view has a comment', async () => {
  const silent = await bench.store.query(
    `SELECT table, name FROM system.columns
     WHERE database = 'questlog' AND comment = '' AND table != 'schema_migrations'`,
  );
  expect(silent).toEqual([]);
});

/** Creates a session with or without a player. */
async function aSessionOf(on: ProjectBench, playerExternalId: string | null): Promise<string> {
  const session = aSession({ tenantId: on.tenant, projectId: on.project, playerExternalId });
  await bench.append(TOPICS.sessions, sessionRegistered, [session]);
  return session.sessionId;
}

function aReport(
  on: ProjectBench,
  fingerprint: string | null,
  of: Partial<ReportLink>,
  title = 'a title',
): ReportLink {
  const texts = { title, description: null, severity: null, reporterType: null, sourceChannel: null };
  const content = { ...texts, fingerprint, namedSessionId: null, context: null, attachments: [] };
  return on.aReport({ ...of, content });
}

async function groupsOf({ project }: ProjectBench): Promise<Record<string, unknown>[]> {
  return await bench.store.query(
    `SELECT fingerprint, title, occurrences, builds, players,
       toUnixTimestamp64Milli(first_seen) AS firstSeen, toUnixTimestamp64Milli(last_seen) AS lastSeen
     FROM report_groups WHERE project_id = {project:UUID} ORDER BY fingerprint`,
    { project },
  );
}
