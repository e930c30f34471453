/**
 * Tests POST /v1/ingest/reports while the log becomes unavailable. After the 503, the client can create one complete report.
 */
import { Router } from '@koa/router';
import { testCursorCiphers } from '@questlog/runtime/cursors/cursorCiphers.testing';
import { problems } from '@questlog/runtime/http/problems';
import { addRoutes } from '@questlog/runtime/http/routes';
import { listen } from '@questlog/runtime/process/listener/listen';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { REPORTS } from '@questlog/schemas/http/operations/reports';
import { TOPICS } from '@questlog/schemas/topics/topics';
import Koa from 'koa';
import { expect, onTestFinished, test } from 'vitest';
import { callerOf, reportHandlers } from '../http/publicApp.ts';
import { openBodyLimits } from '../limits/fairSharing.ts';
import { openLimits } from '../limits/limits.ts';
import { ingestMetrics } from '../metrics.ts';
import { aReportBench, type ReportBench } from './createReport.testing.ts';
import type { ReportDeps } from './createReport.ts';

/** Maximum wait for unread records. The time is short, because the test waits until it ends. */
const WAIT_MS = 100;

test('a report without its events is a 503 that names it, and the same request with its id completes it', async () => {
  const bench = await aReportBench();
  const url = await served(bench);
  const report = { events: bench.inline };
  bench.isDown = (topic) => topic === TOPICS.events;
  const refused = await post(url, report);
  const [filed] = await bench.reports();
  const id = filed?.reportId ?? '';
  const problem = await refused.json();
  expect(refused.status).toBe(503);
  expect(refused.headers.get('location')).toBe(`/v1/reports/${id}`);
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
  expect(problem).toMatchObject({ code: 'unavailable', detail: expect.stringContaining(`"id": "${id}"`) });

  bench.isDown = () => false;
  const whole = await post(url, { ...report, id });
  expect([whole.status, whole.headers.get('location')]).toEqual([200, `/v1/reports/${id}`]);
  expect(await bench.reports()).toHaveLength(1);
  expect(await storedIds(bench)).toEqual(filed?.inlineEventIds.toSorted());
});

test('a retry that also fails is a 503 that names the report again', async () => {
  const bench = await aReportBench();
  const url = await served(bench);
  const report = { id: '0b6ca34e-4cf8-4a46-b24b-85ac27b327fa', events: bench.inline };
  bench.isDown = (topic) => topic === TOPICS.events;
  for (const answer of [await post(url, report), await post(url, report)]) {
    expect([answer.status, answer.headers.get('location')]).toEqual([503, `/v1/reports/${report.id}`]);
  }
});

test('a 503 before the append names no report', async () => {
  const bench = await aReportBench();
  const url = await served(bench);
  bench.isDown = () => true;
  const refused = await post(url, { events: bench.inline });

  expect([refused.status, refused.headers.get('location')]).toEqual([503, null]);
});

test('other content with the id of a 503 is a 409 and stores nothing', async () => {
  const bench = await aReportBench();
  const url = await served(bench);
  bench.isDown = (topic) => topic === TOPICS.events;
  const location = (await post(url, { events: bench.inline })).headers.get('location') ?? '';
  bench.isDown = () => false;
  const id = location.slice(location.lastIndexOf('/') + 1);
  const other = await post(url, { id, events: bench.inline.slice(1) });

  expect(other.status).toBe(409);
  expect(await bench.events()).toEqual([]);
});

test('a report that is not read back in time is a 503 that names it, and the same request with its id completes it', async () => {
  const bench = await aReportBench();
  const { url, readOn } = await servedBlind(bench);
  const report = { events: bench.inline };
  const refused = await post(url, report);
  const [filed] = await bench.reports();
  const id = filed?.reportId ?? '';
  expect([refused.status, refused.headers.get('location')]).toEqual([503, `/v1/reports/${id}`]);
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
  expect(await refused.json()).toMatchObject({ detail: expect.stringContaining(`"id": "${id}"`) });
  expect(await bench.events()).toEqual([]);

  readOn();
  const whole = await post(url, { ...report, id });
  expect([whole.status, whole.headers.get('location')]).toEqual([200, `/v1/reports/${id}`]);
  expect(await bench.reports()).toHaveLength(1);
  expect(await storedIds(bench)).toEqual(filed?.inlineEventIds.toSorted());
});

test('a process that lags behind the log answers 503 without a report, and files nothing', async () => {
  const bench = await aReportBench();
  const { url, readOn } = await servedBlind(bench);
  const report = { id: '0b6ca34e-4cf8-4a46-b24b-85ac27b327fa', events: bench.inline };
  expect((await post(await served(bench), report)).status).toBe(201);
  const itself = new URL(`/v1/reports/${report.id}`, url);
  const answers = [await post(url, report), await fetch(itself), await fetch(itself, { method: 'DELETE' })];
  for (const { status, headers } of answers) {
    expect([status, headers.get('location')]).toEqual([503, null]);
    expect(headers.get('retry-after')).toMatch(/^\d+$/);
  }
  expect(await bench.reports()).toHaveLength(1);

  readOn();
  expect((await post(url, report)).status).toBe(200);
  expect(await bench.reports()).toHaveLength(1);
});

/** Starts a process. The process reads nothing from the log until the test calls `readOn`. */
async function servedBlind(bench: ReportBench): Promise<{ url: string; readOn: () => void }> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const started = await bench.start(() => promise, WAIT_MS);
  // Allows the read before the log is closed, because the close waits for the current record.
  onTestFinished(() => resolve());
  return { url: await served(bench, started), readOn: resolve };
}

async function served(bench: ReportBench, started?: ReportDeps): Promise<string> {
  const metrics = ingestMetrics(createMetricsRegistry());
  const reports = started ?? (await bench.start());
  const router = new Router();
  const bodies = openBodyLimits(metrics.bodyBytesInFlight);
  const { projection } = reports;
  const settling = {
    projections: { events: projection, sessions: projection, reports: projection, links: projection },
    waitForLinks: async () => {},
    cursorCiphers: testCursorCiphers(),
  };
  const reads = { ...reports, ...settling };
  const limits = openLimits(reports.clock, metrics, () => 1);
  const handlers = reportHandlers({ reports, reads, bodies, limits });
  const authorize = callerOf(() => bench.principal);
  addRoutes(router, REPORTS, handlers, authorize);
  const app = new Koa();
  app.use(problems(silentLogger, metrics));
  app.use(router.routes());
  const listener = await listen(app.callback(), {
    ...{ host: '127.0.0.1', port: 0 },
    settings: { host: 'host', port: 'port' },
  });
  onTestFinished(() => listener.close());
  return `http://127.0.0.1:${listener.port}/v1/ingest/reports`;
}

async function post(url: string, report: object): Promise<Response> {
  const headers = { 'Content-Type': 'application/json' };
  return await fetch(url, { method: 'POST', headers, body: JSON.stringify(report) });
}

async function storedIds(bench: ReportBench): Promise<string[]> {
  return (await bench.events()).flatMap(({ events }) => events.map(({ id }) => id)).toSorted();
}
