/**
 * Tests that the spread of a tenant can be raised under load. Open sessions stay on their partition, and new sessions are
 * spread. No event is lost, counted twice, out of order, or missing from a bug report.
 */
import { randomUUID } from 'node:crypto';
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { laneOfSession, partitionOf } from '@questlog/schemas/partition';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { aProject, eventually, onto, type TestProject } from '../e2e/builders.ts';
import type { Answer } from '../e2e/product.ts';
import { bugsIn } from '../e2e/product.ts';
import { keepSecondRows } from './auditDeployment.ts';
import { Deployment, type Service } from './deployment.ts';
import { Crowd, type PlayedSession } from './hotTenantCrowd.ts';

const SPREAD = 4;
/** Number of partitions, as `clusterEnvironment` sets it. */
const PARTITIONS = 4;
const STAYING = 4;
const COMING_AND_GOING = 6;
const SESSIONS_OF_A_SERVER = 3;
const MIN_SESSIONS_BEFORE = 24;
/**
 * Minimum number of sessions after the change. With 64 sessions, a partition gets less than a quarter of its share in one of
 * about 2,000 runs.
 */
const MIN_SESSIONS_AFTER = 64;
const QUOTA = 1_000_000;
/** Length of the report window on each side. The window is longer than the test, so a report gets all events of its session. */
const HALF_AN_HOUR_MS = 1_800_000;
const RUN_WITHIN_MS = 300_000;
const LOADED_WITHIN_MS = 120_000;
const PROJECTED_WITHIN_MS = 60_000;

interface StoredRow {
  readonly session: string;
  readonly id: string;
  readonly n: number;
  readonly place: number;
}

describeKafka('a tenant whose spread is raised under load', (engines) => {
  let deployment: Deployment;
  let project: TestProject;

  beforeAll(async () => {
    deployment = new Deployment(engines);
    // Starts two ingests. The second ingest must not use the new spread for a session that the first ingest has registered.
    await deployment.startAll('ingest', 'ingest', 'operations', 'linker', 'projector');
    await keepSecondRows(deployment);
    const [first] = deployment.running('ingest') as [Service];
    const made = await aProject(first, { revision: 'A', spread: 1, monthlySoftQuota: QUOTA });
    const reportWindow = { beforeMs: HALF_AN_HOUR_MS, afterMs: HALF_AN_HOUR_MS };
    await first.admin('PATCH', `/admin/projects/${made.projectId}`, { reportWindow });
    await waitForAllIngests('/admin/projects', { id: made.projectId, reportWindow });
    project = onto(made, { ...first, request: (...of) => deployment.request(...of) });
    await everyIngest(
      (ingest) => onto(made, ingest).get(`/v1/sessions/${made.sessionId}`),
      ({ status }) => status === 200,
    );
  });
  afterAll(() => deployment?.remove());

  test(
    'keeps each session’s order and partition, and spreads new sessions',
    async () => {
      const crowd = new Crowd(project);
      for (let i = 0; i < STAYING; i++) crowd.stay();
      for (let i = 0; i < COMING_AND_GOING; i++) crowd.comeAndGo();
      crowd.serve(SESSIONS_OF_A_SERVER);
      const opened = (era: string): PlayedSession[] =>
        crowd.sessions.filter((session) => session.opened === era);

      await eventually(async () => opened('before').length >= MIN_SESSIONS_BEFORE, Boolean, LOADED_WITHIN_MS);
      const early = await report(opened('before')[0]);
      crowd.era = 'between';
      await raise();
      crowd.era = 'after';
      const sentAtRaise = new Map(crowd.sessions.map(({ id, eventIds }) => [id, eventIds.length]));
      await eventually(async () => opened('after').length > 0, Boolean, LOADED_WITHIN_MS);
      const fresh = await report(opened('after')[0]);
      await eventually(
        async () => opened('after').filter(({ isShort }) => isShort).length >= MIN_SESSIONS_AFTER,
        Boolean,
        LOADED_WITHIN_MS,
      );
      await crowd.end();
      const reports = [early, fresh, await report(opened('before')[1]), await report(opened('after').at(-1))];

      await everyIngest(
        (ingest) => onto(project, ingest).request('GET', '/v1/quota'),
        (answer) => answer.status === 200 && answer.json().used === crowd.sent,
      );
      const rows = await storedRows();
      const homePartition = partitionOf(project.tenantId, 0, PARTITIONS);
      const wrong = crowd.sessions.flatMap((session) =>
        sessionFindings(session, rows.get(session.id) ?? [], homePartition),
      );
      expect(wrong).toEqual([]);
      expect([...rows.values()].flat()).toHaveLength(crowd.sent);
      await eventually(
        () => deployment.sql<{ used: number }>('SELECT toUInt32(sum(used)) AS used FROM quota_usage'),
        ([row]) => row?.used === crowd.sent,
      );

      const wentOn = opened('before').filter(
        ({ id, eventIds }) => eventIds.length > (sentAtRaise.get(id) ?? Number.POSITIVE_INFINITY),
      );
      expect(wentOn.length).toBeGreaterThanOrEqual(STAYING + SESSIONS_OF_A_SERVER);
      const load = loadOf(
        opened('after').filter(({ isShort }) => isShort),
        rows,
      );
      console.log(
        `hot tenant: ${crowd.sent} events; of short new sessions, by partition: ${load.join(', ')}`,
      );
      const fairShare = load.reduce((sum, events) => sum + events, 0) / SPREAD;
      expect(Math.min(...load)).toBeGreaterThan(fairShare / 4);

      for (const { id, session } of reports) {
        await eventually(
          () => linkedTo(id),
          (linked) => JSON.stringify(linked) === JSON.stringify(session.eventIds.toSorted()),
          PROJECTED_WITHIN_MS,
        );
      }
      expect(deployment.services.flatMap((service) => bugsIn(service.stderr()))).toEqual([]);
      const codes = await deployment.stop();
      expect(codes).toEqual(codes.map(() => 0));
    },
    RUN_WITHIN_MS,
  );

  /** Raises the spread of the tenant. Resolves when every ingest has the new value. */
  async function raise(): Promise<void> {
    const [first] = deployment.running('ingest') as [Service];
    const changed = await first.admin('PATCH', `/admin/tenants/${project.tenantId}`, { spread: SPREAD });
    expect(changed.status).toBe(200);
    await waitForAllIngests('/admin/tenants', { id: project.tenantId, spread: SPREAD });
  }

  async function report(session: PlayedSession | undefined): Promise<{ id: string; session: PlayedSession }> {
    if (session === undefined) throw new Error('the session does not exist');
    const id = randomUUID();
    const answer = await project.report({ id, sessionId: session.id });
    expect(answer.status).toBe(201);
    return { id, session };
  }

  async function waitForAllIngests(path: string, entity: Record<string, unknown>): Promise<void> {
    await everyIngest(
      (ingest) => ingest.admin('GET', path),
      (answer) => {
        const listed: Record<string, unknown>[] = answer.json();
        const found = listed.find(({ id }) => id === entity['id']);
        return Object.entries(entity).every(
          ([name, value]) => JSON.stringify(found?.[name]) === JSON.stringify(value),
        );
      },
    );
  }

  async function everyIngest(
    ask: (ingest: Service) => Promise<Answer>,
    isThere: (answer: Answer) => boolean,
  ): Promise<void> {
    for (const ingest of deployment.running('ingest')) {
      const request = async (): Promise<{ answer: Answer; text: string }> => {
        const answer = await ask(ingest);
        return { answer, text: answer.text() };
      };
      await eventually(request, ({ answer }) => isThere(answer), PROJECTED_WITHIN_MS);
    }
  }

  /** Returns the stored rows by session, in the order of the log. */
  async function storedRows(): Promise<Map<string, StoredRow[]>> {
    const rows = await deployment.sql<StoredRow>(
      `SELECT toString(session_id) AS session, toString(id) AS id, log_partition AS place,
              toUInt32(JSONExtractUInt(payload, 'n')) AS n
       FROM events WHERE project_id = '${project.projectId}' ORDER BY log_partition, log_offset, log_index`,
    );
    return Map.groupBy(rows, ({ session }) => session);
  }

  async function linkedTo(reportId: string): Promise<string[]> {
    const rows = await deployment.sql<{ id: string }>(
      `SELECT toString(event_id) AS id FROM report_links WHERE report_id = '${reportId}' AND state = 'linked'`,
    );
    return rows.map(({ id }) => id).sort();
  }
});

/**
 * Returns the faults of a session. Each event must be stored once, in the order of sending, and on the same partition as the
 * other events.
 */
function sessionFindings(
  { id, opened, eventIds }: PlayedSession,
  rows: readonly StoredRow[],
  home: number,
): string[] {
  const partitions = [...new Set(rows.map(({ place }) => place))];
  const spreadOver = (home + laneOfSession(id, SPREAD)) % PARTITIONS;
  const allowed = { before: [home], between: [home, spreadOver], after: [spreadOver] }[opened];
  const stored = rows.map((row) => `${row.n} ${row.id}`);
  const sent = eventIds.map((eventId, n) => `${n} ${eventId}`);
  const differs = Array.from({ length: Math.max(stored.length, sent.length) }, (_, i) => i).find(
    (i) => stored[i] !== sent[i],
  );
  return [
    ...(differs === undefined
      ? []
      : [
          `session ${id}: at ${differs} ${stored[differs] ?? 'nothing'} instead of ${sent[differs] ?? 'nothing'}`,
        ]),
    ...(partitions.length <= 1 && partitions.every((place) => allowed.includes(place))
      ? []
      : [`session ${id}, opened ${opened}: on ${partitions.join()} instead of ${allowed.join(' or ')}`]),
  ];
}

/** Returns the number of stored events of each partition. */
function loadOf(
  sessions: readonly PlayedSession[],
  rows: ReadonlyMap<string, readonly StoredRow[]>,
): number[] {
  const load = Array.from({ length: PARTITIONS }, () => 0);
  for (const { place } of sessions.flatMap(({ id }) => rows.get(id) ?? []))
    load[place] = (load[place] ?? 0) + 1;
  return load;
}
