/**
 * Tests `QUESTLOG_WORKERS` with two workers on one port under load from many connections. Both workers serve requests, and their
 * metrics are combined. Each worker can be killed, and a stop loses no acknowledged event.
 */
import { existsSync, readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { describeKafka } from '@questlog/runtime/log/kafka/testing/engines';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { aProject, events, eventually, type TestProject } from '../e2e/builders.ts';
import { bugsIn } from '../e2e/product.ts';
import { Deployment, type Service } from './deployment.ts';

const KEPT_CONNECTIONS = 12;
/**
 * Number of clients that open a new connection for each request. Some connections are assigned to a worker while the worker
 * dies.
 */
const SHORT_CONNECTIONS = 4;
const EVENTS = events(5);
/** Timeout of a request, longer than any response takes. A connection that no worker accepts would otherwise stay open. */
const UNANSWERED_AFTER_MS = 20_000;
const PROJECTED_WITHIN_MS = 60_000;
const LOADED_WITHIN_MS = 60_000;
const BACK_WITHIN_MS = 60_000;

describeKafka('ingest with two workers', (engines) => {
  const deployment = new Deployment(engines, { QUESTLOG_UPLOADS: 'off' });
  let ingest: Service;
  let project: TestProject;
  const answered: string[] = [];

  async function startIngest(): Promise<Service> {
    const [port, adminPort] = await freePorts(2);
    const ports = { QUESTLOG_PORT: String(port), QUESTLOG_ADMIN_PORT: String(adminPort) };
    return await deployment.start('ingest', { QUESTLOG_WORKERS: '2', ...ports });
  }

  beforeAll(async () => {
    [ingest] = await Promise.all([
      startIngest(),
      deployment.start('operations'),
      deployment.start('projector'),
    ]);
    // Retries after a 401, because one worker receives the new token before the other worker.
    const requestWithRetry: Service['request'] = (...of) =>
      eventually(
        () => ingest.request(...of),
        ({ status }) => status !== 401,
      );
    project = await aProject({ ...ingest, request: requestWithRetry }, { revision: 'B' });
    await eventually(
      () => Promise.all(Array.from({ length: 8 }, () => post())),
      (each) => each.every(isStored),
    );
  });
  afterAll(() => deployment.remove());

  /** Sends events. Returns the ids of the stored events. If the request fails, returns the status or the error message. */
  function post(agent = new Agent({ maxSockets: 1 })): Promise<string[] | number | string> {
    return new Promise((resolve) => {
      const headers = { Authorization: `Bearer ${project.token}`, 'Content-Type': 'application/json' };
      const options = { method: 'POST', headers, agent, timeout: UNANSWERED_AFTER_MS };
      const sent = request(`${ingest.baseUrl}/v1/ingest/events`, options, async (response) => {
        const text = Buffer.concat(await response.toArray().catch(() => [])).toString();
        if (response.statusCode !== 201) return resolve(response.statusCode ?? 0);
        const ids = /^\[.*\]$/s.test(text) ? JSON.parse(text).map(({ id }: { id: string }) => id) : [];
        answered.push(...ids);
        resolve(ids);
      });
      sent.on('timeout', () => sent.destroy(new Error('no response')));
      sent.on('error', ({ message }) => resolve(message));
      sent.end(JSON.stringify(EVENTS));
    });
  }

  /** Sends requests on every connection while `work` runs. @returns the statuses and errors of the requests that failed. */
  async function underLoad(work: () => Promise<unknown>): Promise<(number | string)[]> {
    const failures: (number | string)[] = [];
    let isOver = false;
    const send = async (agent?: Agent): Promise<void> => {
      while (!isOver) {
        const outcome = await post(agent);
        if (typeof outcome !== 'object') failures.push(outcome);
      }
      agent?.destroy();
    };
    const agents = Array.from(
      { length: KEPT_CONNECTIONS },
      () => new Agent({ keepAlive: true, maxSockets: 1 }),
    );
    const clients = [
      ...agents.map((agent) => send(agent)),
      ...Array.from({ length: SHORT_CONNECTIONS }, () => send()),
    ];
    try {
      await work();
    } catch (cause) {
      const failed = JSON.stringify([...new Set(failures)]);
      throw new Error(`under load, with the failures ${failed} and the log ${ingest.stderr()}`, { cause });
    } finally {
      isOver = true;
      await Promise.all(clients);
    }
    return failures;
  }

  /** Returns the number of accepted events of each worker. */
  async function accepted(): Promise<Map<string, number>> {
    const metrics = await (await fetch(`${ingest.adminUrl}/metrics`)).text();
    const found = metrics.matchAll(/^questlog_events_accepted_total\{worker="(\d)"\} (\d+)$/gm);
    return new Map([...found].map(([, worker = '', count]) => [worker, Number(count)]));
  }
  /** Waits until `count` more events have been acknowledged. */
  async function waitForMore(count: number): Promise<void> {
    const before = answered.length;
    await eventually(
      async () => answered.length - before,
      (since) => since >= count,
      LOADED_WITHIN_MS,
    );
  }
  const sum = (counts: Map<string, number>): number => [...counts.values()].reduce((a, b) => a + b, 0);

  async function expectNothingLost(): Promise<void> {
    await eventually(
      async () => {
        const rows = await deployment.sql<{ id: string }>(
          `SELECT DISTINCT toString(id) AS id FROM events WHERE project_id = '${project.projectId}'`,
        );
        const stored = new Set(rows.map(({ id }) => id));
        return answered.filter((id) => !stored.has(id)).length;
      },
      (lost) => lost === 0,
      PROJECTED_WITHIN_MS,
    );
  }

  test('both workers serve requests, and the sum of their metrics is the number of sent events', async () => {
    const failures = await underLoad(() => waitForMore(2_000));

    expect(failures).toEqual([]);
    const counts = await accepted();
    expect([...counts.keys()].sort()).toEqual(['1', '2']);
    expect(sum(counts)).toBe(answered.length);
    for (const count of counts.values()) expect(count).toBeGreaterThan(answered.length / 8);
    expect(await accepted()).toEqual(counts);
    const ready = async () => {
      const { status, warnings } = await ingest.readyz();
      return [status, warnings['workers']];
    };
    await expect.poll(ready).toEqual([200, undefined]);
  });

  test.each([2, 1])(
    'worker %i restarts after a kill, the port keeps serving, and no acknowledged event is lost',
    async (worker) => {
      const pid = workersOf(ingest.pid)[worker - 1] ?? 0;
      const failures = await underLoad(async () => {
        await waitForMore(200);
        process.kill(pid, 'SIGKILL');
        if (worker === 2) {
          const { status, warnings } = await ingest.readyz();
          expect(status).toBe(200);
          expect(warnings['workers']).toBe('1 of 2 workers do not answer');
        }
        await waitForMore(500);
        await eventually(
          () => ingest.readyz().catch(() => undefined),
          (state) => state?.status === 200 && state.warnings['workers'] === undefined,
          BACK_WITHIN_MS,
        );
      });
      // Only requests that were in flight at the kill can fail. Later requests succeed on all connections.
      expect(failures.length).toBeLessThanOrEqual(KEPT_CONNECTIONS + SHORT_CONNECTIONS);
      expect(workersOf(ingest.pid)).toHaveLength(2);
      await expectNothingLost();
    },
  );

  test('a stop drains both workers and exits with 0 after the workers', async () => {
    const pids = workersOf(ingest.pid);
    let code: number | null = null;
    const failures = await underLoad(async () => {
      await waitForMore(200);
      code = await ingest.stop();
    });
    expect(code).toBe(0);
    expect(pids.filter(isRunning)).toEqual([]);
    // All failures are refused or closed connections. This shows that no accepted request was interrupted.
    expect(failures.filter((why) => !/ECONNREFUSED|ECONNRESET|hang up/.test(String(why)))).toEqual([]);
    await expectNothingLost();
    expect(bugsIn(ingest.stderr())).toEqual([]);
  });

  test('workers exit after their parent was killed', async () => {
    const again = await startIngest();
    const pids = workersOf(again.pid);
    expect(pids).toHaveLength(2);
    await again.kill();

    await eventually(
      async () => pids.filter(isRunning),
      (left) => left.length === 0,
    );
  });
});

const isStored = (outcome: unknown): boolean => typeof outcome === 'object';

/** Returns the process ids of the workers. The worker that was started last is at the end. */
function workersOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').map(Number).filter(isRunning);
}

/** Returns true if the process runs. A zombie process does not run. */
function isRunning(pid: number): boolean {
  const path = `/proc/${pid}/stat`;
  return existsSync(path) && !/\) [ZX] /.test(readFileSync(path, 'utf8'));
}
