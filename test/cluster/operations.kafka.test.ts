/** Tests a deployment with separate processes: operations answers all admin endpoints, and ingest answers none. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { OpenApiDocument } from '@questlog/runtime/http/openapi/openApiDocument';
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { failIfRequired } from '@questlog/runtime/process/testing/required';
import { aBucket, keysIn } from '@questlog/runtime/uploads/bucket.testing';
import { type Operation, routeOf } from '@questlog/schemas/http/operations/operation';
import { OPERATORS } from '@questlog/schemas/http/operations/operators';
import { PROBLEM_TYPE } from '@questlog/schemas/http/problem';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { aProject, eventually, type TestProject } from '../e2e/builders.ts';
import { bugsIn } from '../e2e/product.ts';
import { expectNoErrors } from '../logLines.ts';
import { Deployment, type Service } from './deployment.ts';

/** A created token is valid at every ingest after this time. */
const KNOWN_WITHIN_MS = 2_000;
const UNKNOWN = randomUUID();
/** The test's topics have one replica. On a busy machine, ClickHouse or a group's coordinator can need several seconds. */
const WARNINGS = [
  'acknowledged_events_may_be_lost_with_one_broker',
  'clickhouse_awaited',
  'log_membership_interrupted',
  'schema_registry_awaited',
];
/**
 * Bodies and expected statuses of single operations. By default, the body is empty, GET expects 200, and all other methods
 * expect 404, because their ids are unknown. The bodies change nothing, because they name unknown ids or lack required fields.
 */
const CASES: { readonly [Id in keyof typeof OPERATORS]?: { status: number; body?: object } } = {
  createTenant: { status: 400 },
  createProject: { status: 404, body: { tenantId: UNKNOWN, name: 'unknown' } },
  rotateToken: { status: 404, body: { overlapSeconds: 0 } },
  replaceSwitches: { status: 404, body: [] },
  createToken: { status: 404, body: { projectId: UNKNOWN } },
  createReader: { status: 501, body: { tenantId: UNKNOWN } },
  rotateReader: { status: 501 },
  retryLinks: { status: 200, body: { reportId: UNKNOWN } },
  runSql: { status: 200, body: { query: 'SELECT 1' } },
  planExport: {
    status: 404,
    body: { projectId: UNKNOWN, kind: 'events', from: null, to: null, after: [] },
  },
  readExportChunk: { status: 400 },
  verify: { status: 200, body: { from: new Date(Date.now() - 60_000).toISOString() } },
  getDeadLetter: { status: 404 },
  createExport: { status: 404, body: { projectId: UNKNOWN, kind: 'events', output: 's3://bucket' } },
  getExport: { status: 404 },
  listPartitionShards: { status: 404 },
  movePartitions: { status: 404, body: { partitions: [0], shard: 'unknown' } },
  listShardQuorums: { status: 404 },
  changeShardQuorum: { status: 404, body: { shard: 'unknown', quorum: 1 } },
  createErasure: { status: 404, body: { tenantId: UNKNOWN } },
  getErasure: { status: 404 },
  listBackups: { status: 501 },
  createBackup: { status: 501 },
  getUpload: { status: 404 },
};

describeKafka('operations as a process of its own', (engines) => {
  const deployment = new Deployment(engines);
  let ingest: Service;
  let operations: Service;
  let project: TestProject;
  let firstLines: string;

  beforeAll(async () => {
    const [first] = (await deployment.startAll('ingest', 'linker', 'projector')) as [Service];
    ingest = first;
    operations = await deployment.start('operations', { QUESTLOG_URL: ingest.baseUrl });
    // Omits a last line that the process has not finished yet.
    firstLines = deployment.services.map(({ stderr }) => /^.*\n/s.exec(stderr())?.[0] ?? '').join('');
    project = await aProject(ingest, { revision: 'B' });
  });
  afterAll(() => deployment.remove());

  test('logs only documented lines, and nothing that looks like an error, at the first start', () => {
    expectNoErrors(firstLines, WARNINGS);
  });

  test('answers every operation with a declared status, and ingest answers none below /admin', async () => {
    const document: OpenApiDocument = (await operations.admin('GET', '/openapi.json')).json();
    const headers = {
      Authorization: `Bearer ${deployment.settings['QUESTLOG_ADMIN_TOKEN']}`,
      'Content-Type': 'application/json',
    };
    for (const [id, operation] of Object.entries<Operation>(OPERATORS)) {
      const { method, path: template } = routeOf(operation);
      const path = template
        .replace('{id}', method === 'GET' ? project.projectId : UNKNOWN)
        .replaceAll(/\{\w+\}/g, UNKNOWN);
      const { status, body = {} } = CASES[id as keyof typeof OPERATORS] ?? {
        status: method === 'GET' ? 200 : 404,
      };
      const request = { method, headers, ...(operation.body && { body: JSON.stringify(body) }) };
      const answer = await fetch(operations.adminUrl + path, request);
      if (answer.ok) await answer.body?.cancel(); // The response of /admin/tail does not end.
      const text = answer.ok ? '' : await answer.text();
      expect([id, answer.status], text).toEqual([id, status]);
      expect(Object.keys(document.paths[template]?.[method.toLowerCase()]?.responses ?? {})).toContain(
        `${status}`,
      );
      if (!answer.ok) expect(answer.headers.get('Content-Type')).toContain(PROBLEM_TYPE);
      // The listener answers with this detail if no route has the path.
      expect(text).not.toContain('there is nothing at');
      if (!path.startsWith('/admin/')) continue;
      expect([id, (await fetch(ingest.adminUrl + path, { method })).status]).toEqual([id, 404]);
    }
  });

  test('sends a test event through the games’ listener', async () => {
    const answer = await operations.admin('POST', `/admin/projects/${project.projectId}/test-event`);
    expect(answer.status, answer.text()).toBe(201);
    expect(answer.json()).toMatchObject({ eventType: 'questlog.test' });
    const tokens: { projectId: string }[] = (await operations.admin('GET', '/admin/tokens')).json();
    // The token of the test event was revoked.
    expect(tokens.filter(({ projectId }) => projectId === project.projectId)).toHaveLength(1);
  });

  test('creates a token that is valid at ingest within two seconds', async () => {
    const created = await operations.admin('POST', '/admin/tokens', {
      projectId: project.projectId,
      scopes: ['read'],
    });
    const headers = { Authorization: `Bearer ${created.json().token}` };
    const startMs = performance.now();
    await eventually(
      () => ingest.request('GET', '/v1/quota', { headers }),
      // The answer can be a 503 while the projector is behind.
      ({ status }) => status !== 401,
    );
    expect(performance.now() - startMs).toBeLessThan(KNOWN_WITHIN_MS);
  });

  test('ingest is ready, does not warn that operations is missing, and no process logs a bug', async () => {
    const { status, warnings } = await ingest.readyz();
    expect([status, warnings['operations']]).toEqual([200, undefined]);
    expect(deployment.services.flatMap((service) => bugsIn(service.stderr()))).toEqual([]);
  });

  test('another process continues an export to S3 after a kill, and two processes do not run it twice', {
    timeout: 240_000,
  }, async ({ skip }) => {
    if (engines.s3 === undefined) {
      const lack = 'the S3 server of the local stack, which Go builds, is missing';
      failIfRequired('s3', lack);
      return skip(lack);
    }
    await operations.stop();
    // The killed process waits for the first response of this server.
    const silent = createServer(() => {});
    await once(silent.listen(0, '127.0.0.1'), 'listening');
    onTestFinished(() => {
      silent.closeAllConnections();
      silent.close();
    });
    const address = silent.address();
    const port = typeof address === 'object' ? address?.port : '';
    const killed = await deployment.start('operations', { QUESTLOG_S3_ENDPOINT: `http://127.0.0.1:${port}` });
    const bucket = await aBucket(engines.s3);
    const scope = { projectId: project.projectId, kind: 'events', format: 'ndjson' };
    const created = await killed.admin('POST', '/admin/exports', {
      ...scope,
      output: `s3://${bucket.bucket}/games`,
    });
    const path = `/admin/exports/${created.json().id}`;
    await eventually(
      async () => (await killed.admin('GET', path)).json(),
      ({ state }) => state === 'running',
    );
    await killed.kill();
    const [first, second] = await Promise.all([
      deployment.start('operations'),
      deployment.start('operations'),
    ]);
    const job = await eventually(
      async () => (await first.admin('GET', path)).json(),
      ({ state }) => state === 'done',
      120_000,
    );
    const [count] = await deployment.sql<{ rows: string }>(
      `SELECT count() AS rows FROM events WHERE project_id = '${project.projectId}'`,
    );
    expect(job).toMatchObject({ rows: Number(count?.rows), files: 1, problem: null });
    expect(job.rows).toBeGreaterThan(0);
    const keys = await keysIn(bucket);
    expect(keys).toEqual([
      expect.stringMatching(/^games\/events\/[^/]+\/20\d\d-\d\d-\d\d\/.*-1\.ndjson$/),
      `games/events/${project.projectId}/manifest.json`,
    ]);
    const runs = [first, second].map(({ stderr }) => stderr().split('export_done').length - 1);
    expect(runs.sort()).toEqual([0, 1]);
  });
});
