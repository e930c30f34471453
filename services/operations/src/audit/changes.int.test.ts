/** Tests that every change has its record, also if the log rejects records or changes are concurrent. */
import { createServer } from 'node:http';
import { Router } from '@koa/router';
import { openDirectory } from '@questlog/runtime/directory/openDirectory';
import { problems } from '@questlog/runtime/http/problems';
import { checkedBody, jsonBody } from '@questlog/runtime/http/route';
import { readToEnd } from '@questlog/runtime/log/contract/harness';
import { aLog, topicSpec } from '@questlog/runtime/log/embedded/testing/testLog';
import { withMethods } from '@questlog/runtime/log/testing/alteredLog';
import { systemClock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { createLifecycle } from '@questlog/runtime/process/lifecycle';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { TenantPatch } from '@questlog/schemas/http/admin';
import { type AuditEntry, auditEntry } from '@questlog/schemas/topics/auditEntry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import Koa from 'koa';
import { expect, onTestFinished, test } from 'vitest';
import { administer } from '../directory/administer.ts';
import { operationsMetrics } from '../metrics.ts';
import { openAudit } from './audit.ts';

test('rejects a change whose record cannot be appended', async () => {
  const { patch, name, refuse, records } = await aTenant();
  refuse(1);
  expect(await patch('Other')).toBe(503);
  expect(name()).toBe('First');
  expect(await records()).toEqual([]);
});

test('does not acknowledge a change whose result cannot be recorded, and keeps the first record', async () => {
  const { patch, name, refuse, records } = await aTenant();
  refuse(2);
  expect(await patch('Other')).toBe(503);
  expect(name()).toBe('Other');
  expect(await records()).toMatchObject([
    { route: '/admin/tenants/:id', body: '{"name":"Other"}', status: null },
  ]);
});

test('records concurrent changes of one tenant in sequence', async () => {
  const { patch, records } = await aTenant();
  const names = Array.from({ length: 20 }, (_, n) => `Name ${n}`);
  expect(new Set(await Promise.all(names.map((name) => patch(name))))).toEqual(new Set([200]));
  const answered = (await records()).filter(({ status }) => status === 200);
  const nameIn = (text: string | null): string => JSON.parse(text ?? '{}').name;
  expect(answered.map(({ before }) => nameIn(before))).toEqual([
    'First',
    ...answered.slice(0, -1).map(({ after }) => nameIn(after)),
  ]);
  expect(answered.map(({ after }) => nameIn(after)).toSorted()).toEqual(names.toSorted());
});

test('records the rejection of a body with an invalid id', async () => {
  const { patch, records } = await aTenant();
  expect(await patch('Other', { projectId: { toString: 1 } })).toBe(400);
  expect((await records()).map(({ status }) => status)).toEqual([null, 400]);
});

test('records the first value of a repeated query parameter, which is the value that a route uses', async () => {
  const { patchWithQuery, records } = await aTenant();
  expect(await patchWithQuery('force=true&force=false&dry=1')).toBe(415);
  expect((await records()).map(({ body }) => JSON.parse(body ?? '{}'))).toEqual(
    Array(2).fill({ force: 'true', dry: '1' }),
  );
});

async function aTenant() {
  const whole = await aLog();
  await whole.ensureTopics([TOPICS.directory, TOPICS.schemas, TOPICS.audit].map((name) => topicSpec(name)));
  let refused = 0;
  let appends = 0;
  const log = withMethods(whole, {
    append: (topic, partition, records) => {
      if (topic === TOPICS.audit && ++appends === refused) throw new Unavailable('the log is away');
      return whole.append(topic, partition, records);
    },
  });
  const registry = await openLogRegistry(whole);
  const directory = await openDirectory(whole, registry, silentLogger);
  onTestFinished(() => directory.close());
  const shared = {
    log,
    registry,
    directory,
    clock: systemClock,
    logger: silentLogger,
    adminToken: 'x'.repeat(16),
  };
  const audit = await openAudit({
    ...shared,
    lifecycle: { ...createLifecycle(silentLogger), onStop: (_, close) => onTestFinished(close) },
  });
  const { createTenant, patchTenant } = administer(directory, systemClock);
  const { id } = (await createTenant({ name: 'First' })).body;

  const router = new Router();
  const checked = checkedBody(TenantPatch);
  router.patch('/admin/tenants/:id', jsonBody(), async (ctx) => {
    ctx.body = (await patchTenant(checked(ctx.request.body), ctx.params['id'] ?? '')).body;
  });
  const app = new Koa();
  app.use(problems(silentLogger, operationsMetrics(createMetricsRegistry())));
  app.use(audit.changes(router));
  app.use(router.routes());
  const server = createServer(app.callback()).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await new Promise((listening) => server.once('listening', listening));
  const { port } = Object(server.address());
  return {
    refuse: (nth: number) => {
      refused = nth;
    },
    name: () => directory.current.tenants.get(id)?.name,
    patch: async (name: string, more: object = {}): Promise<number> => {
      const headers = { 'Content-Type': 'application/json' };
      const asked = { method: 'PATCH', headers, body: JSON.stringify({ ...more, name }) };
      return (await fetch(`http://127.0.0.1:${port}/admin/tenants/${id}`, asked)).status;
    },
    patchWithQuery: async (query: string): Promise<number> =>
      (await fetch(`http://127.0.0.1:${port}/admin/tenants/${id}?${query}`, { method: 'PATCH' })).status,
    records: async (): Promise<AuditEntry[]> => {
      const codec = await createCodec(registry, auditEntry);
      return Promise.all(
        (await readToEnd(whole, TOPICS.audit)).flat().map(({ value }) => codec.decode(value)),
      );
    },
  };
}
