/** Tests that GET /openapi.json of the admin listener describes the behavior of the listener. */
import type { ExportOffset, ExportPlan } from '@questlog/schemas/http/export';
import { Compile } from 'typebox/schema';
import { beforeAll, expect, test } from 'vitest';
import { anUnknownId, eventually, RECOUNT_WITHIN_MS } from './builders.ts';
import type { Answer } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';

type Responses = Readonly<
  Record<string, { readonly content?: Readonly<Record<string, { schema: object }>> }>
>;

interface Document {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly responses: Responses }>>>>;
  readonly components: object;
}

const shared = sharedProduct();
let document: Document;
beforeAll(async () => {
  // Sends no token. The document needs none, because it contains no secret.
  const answer = await fetch(`${shared.product.credentials.adminUrl}/openapi.json`);
  document = JSON.parse(await answer.text());
});

test('names the location of the admin token', () => {
  expect(JSON.stringify(document.components)).toContain('`adminToken` in `.data/dev-credentials.json`');
});

test('the document lists exactly the methods that the listener allows for each path', async () => {
  expect(document.openapi).toMatch(/^3\.1\./);
  for (const [path, operations] of Object.entries(document.paths)) {
    const rejected = await shared.product.admin('PROPFIND', path.replace('{id}', anUnknownId()));
    const allowed = rejected.headers.get('Allow')?.split(', ') ?? [];

    expect([path, rejected.status]).toEqual([path, 405]);
    expect([path, ...Object.keys(operations).map((method) => method.toUpperCase())].toSorted()).toEqual(
      [path, ...allowed.filter((method) => method !== 'HEAD')].toSorted(),
    );
  }
});

test('every answer has a documented status, schema, and media type', {
  timeout: RECOUNT_WITHIN_MS,
}, async () => {
  const operations = new Set<string>();
  const ask = async (method: string, path: string, body?: object, own = path): Promise<Answer> => {
    const answer = await shared.product.admin(method, own, body);
    const [[type, documented] = [], ...others] = Object.entries(
      document.paths[path]?.[method.toLowerCase()]?.responses[answer.status]?.content ?? { '': undefined },
    );
    operations.add(`${method} ${path}`);
    expect([method, path, answer.status, answer.headers.get('content-type')?.split(';')[0] ?? '']).toEqual([
      ...[method, path, answer.status, type],
    ]);
    expect(others).toEqual([]);
    if (documented === undefined || type === 'text/plain' || type === 'application/x-ndjson') return answer;
    const [, errors] = Compile({ ...documented.schema, components: document.components }).Errors(
      answer.json(),
    );
    expect([method, path, errors]).toEqual([method, path, []]);
    return answer;
  };
  const kind = async (path: string, input: object, patch?: object): Promise<string> => {
    const given = { id: anUnknownId(), ...input };
    await ask('POST', path, given);
    await ask('POST', path, given);
    await ask('POST', path, { ...given, name: 'another' });
    await ask('POST', path, { ...given, unknownField: 1 });
    await ask('PATCH', `${path}/{id}`, patch, `${path}/${given.id}`);
    await ask('PATCH', `${path}/{id}`, patch, `${path}/${anUnknownId()}`);
    await ask('GET', path);
    return given.id;
  };

  const tenantId = await kind('/admin/tenants', { name: 'Studio' }, { monthlySoftQuota: null });
  const projectId = await kind('/admin/projects', { tenantId, name: 'Game' }, { revision: 'B' });
  await ask('POST', '/admin/projects', { tenantId: anUnknownId(), name: 'Game' });
  const testEvent = '/admin/projects/{id}/test-event';
  await ask('POST', testEvent, undefined, testEvent.replace('{id}', projectId));
  await ask('POST', testEvent, undefined, testEvent.replace('{id}', anUnknownId()));
  const switches = '/admin/projects/{id}/switches';
  for (const id of [projectId, anUnknownId()]) {
    const path = switches.replace('{id}', id);
    await ask('PUT', switches, [{ action: 'sample', sampleRate: 0.5, reason: 'R' }], path);
    await ask('PUT', switches, [{ action: 'drop' }], path);
    await ask('GET', switches, undefined, path);
  }
  // Adds a `reject` switch. The switch must also apply to the test event.
  await ask('PUT', switches, [{ action: 'reject', reason: 'R' }], switches.replace('{id}', projectId));
  await ask('POST', testEvent, undefined, testEvent.replace('{id}', projectId));
  await ask('PUT', switches, [], switches.replace('{id}', projectId));
  const [project, limits] = ['/admin/projects/{id}', { eventsPerSecond: 1, burstSeconds: 1 }];
  await ask('PATCH', project, { limits }, project.replace('{id}', projectId));
  const sendOne = () => ask('POST', testEvent, undefined, testEvent.replace('{id}', projectId));
  const answers = await Promise.all([sendOne(), sendOne(), sendOne()]);
  expect(answers.map(({ status }) => status)).toContain(429);
  const report = '/admin/projects/{id}/reports/{reportId}';
  const nowhere = report.replace('{id}', projectId).replace('{reportId}', anUnknownId());
  await ask('DELETE', report, undefined, nowhere);
  const token = (await ask('POST', '/admin/tokens', { projectId, expiresAt: '2199-01-01' })).json();
  const rotate = '/admin/tokens/{id}/rotate';
  for (const id of [token.id, token.id, anUnknownId()])
    await ask('POST', rotate, { overlapSeconds: 60 }, rotate.replace('{id}', id));
  await ask('GET', '/admin/tokens');
  await ask('DELETE', '/admin/tokens/{id}', undefined, `/admin/tokens/${token.id}`);
  await ask('DELETE', '/admin/tokens/{id}', undefined, `/admin/tokens/${token.id}`);
  const reader = (await ask('POST', '/admin/readers', { tenantId, projectId, name: 'Grafana' })).json();
  await ask('POST', '/admin/readers', { tenantId: anUnknownId() });
  await ask('GET', '/admin/readers');
  for (const [method, path] of [
    ['POST', '/admin/readers/{id}/rotate'],
    ['DELETE', '/admin/readers/{id}'],
  ] as const)
    for (const id of [reader.id, anUnknownId()]) await ask(method, path, undefined, path.replace('{id}', id));
  // The export waits, because no S3 server has this bucket.
  const output = 's3://no-bucket/exports';
  const newExport = { projectId, kind: 'events', output, everyHours: 24 };
  const job = (await ask('POST', '/admin/exports', newExport)).json();
  expect(job).toMatchObject({ path: `${output}/events/${projectId}`, format: 'parquet', everyHours: 24 });
  expect((await ask('POST', '/admin/exports', newExport)).status).toBe(409);
  expect((await ask('POST', '/admin/exports', { ...newExport, output: '/tmp' })).status).toBe(400);
  await ask('POST', '/admin/exports', { ...newExport, projectId: anUnknownId() });
  await ask('GET', '/admin/exports');
  for (const method of ['GET', 'DELETE'] as const)
    for (const id of [job.id, anUnknownId()])
      await ask(method, '/admin/exports/{id}', undefined, `/admin/exports/${id}`);
  await ask('POST', '/admin/links/retry', { projectId });
  await ask('POST', '/admin/sql', { query: 'SELECT 1' });
  await ask('POST', '/admin/sql', { query: 'SELECT' });
  const scope = { projectId, kind: 'events', from: null, to: null };
  const offsetOf = async (): Promise<ExportOffset | undefined> => {
    const { offsets }: ExportPlan = (await ask('POST', '/admin/export/plan', { ...scope, after: [] })).json();
    return offsets.find(({ nextOffset }) => nextOffset > 0);
  };
  const offset = await eventually(offsetOf, (found) => found !== undefined);
  await ask('POST', '/admin/export/plan', { ...scope, after: [{ ...offset, logId: anUnknownId() }] });
  await ask('POST', '/admin/export/plan', { ...scope, from: '2026-02-30', after: [] });
  await ask('POST', '/admin/export/plan', { ...scope, projectId: anUnknownId(), after: [] });
  const chunk = {
    projectId,
    kind: 'events',
    day: '2026-11-01',
    ...{ logId: offset?.logId, partition: offset?.partition, firstOffset: 0, lastOffset: 0 },
    offsets: [offset],
    format: 'csv',
    exceptState: '0.0',
  };
  expect((await ask('POST', '/admin/export/chunk', chunk)).status).toBe(204);
  expect((await ask('POST', '/admin/export/chunk', { ...chunk, offsets: [] })).status).toBe(412);
  await ask('POST', '/admin/export/chunk', { ...chunk, projectId: anUnknownId() });
  await ask('GET', '/admin/retention');
  await ask('GET', '/admin/retention', undefined, '/admin/retention?project=nobody');
  await ask('GET', '/admin/ledger');
  await ask('GET', '/admin/ledger', undefined, '/admin/ledger?tenant=nobody');
  await ask('POST', '/admin/verify', { from: new Date(Date.now() - 60_000).toISOString() });
  await ask('POST', '/admin/verify', { from: '2199-01-01' });
  // Sends an invalid request only. A valid request opens a stream that does not end, and other tests cover such a stream.
  await ask('GET', '/admin/tail', undefined, '/admin/tail?where=level');
  await ask('GET', '/admin/tail', undefined, `/admin/tail?project=${anUnknownId()}`);
  const audit = '/admin/audit';
  await eventually(
    () => ask('GET', audit, undefined, `${audit}?tenant=${tenantId}`),
    (answer) => answer.json().audit.length > 0,
  );
  await ask('GET', audit, undefined, `${audit}?since=yesterday`);
  const deadLetters = '/admin/dead-letters';
  await ask('GET', deadLetters);
  await ask('GET', deadLetters, undefined, `${deadLetters}?state=gone`);
  const unknownPath = `${deadLetters}/${anUnknownId()}`;
  await ask('GET', `${deadLetters}/{id}`, undefined, unknownPath);
  await ask('DELETE', `${deadLetters}/{id}`, undefined, unknownPath);
  await ask('POST', `${deadLetters}/{id}/replay`, undefined, `${unknownPath}/replay`);
  const erasures = '/admin/erasures';
  const { id } = (await ask('POST', erasures, { tenantId, projectId, sessionId: anUnknownId() })).json();
  await ask('POST', erasures, { tenantId: anUnknownId() });
  await ask('POST', erasures, { tenantId, player: {} });
  await ask('GET', erasures);
  await ask('GET', `${erasures}/{id}`, undefined, `${erasures}/${id}`);
  await ask('GET', `${erasures}/{id}`, undefined, `${erasures}/${anUnknownId()}`);
  await ask('GET', '/admin/clickhouse/nodes');
  await ask('GET', '/admin/clickhouse/partitions');
  await ask('POST', '/admin/clickhouse/moves', { partitions: [0], shard: '2' });
  await ask('GET', '/admin/clickhouse/quorums');
  await ask('POST', '/admin/clickhouse/quorums', { shard: '2', quorum: 1 });
  const upload = '/admin/uploads/{projectId}/{uploadId}';
  await ask('GET', upload, undefined, `/admin/uploads/${projectId}/${anUnknownId()}`);
  await ask('POST', '/admin/backups');
  await ask('GET', '/admin/backups');
  for (const path of ['/admin/lag', '/admin/traffic', '/healthz', '/readyz', '/metrics', '/openapi.json'])
    await ask('GET', path);

  const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect([...operations].toSorted()).toEqual(documented.toSorted());
});
