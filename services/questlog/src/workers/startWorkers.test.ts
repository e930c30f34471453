/**
 * Tests workers with a minimal server instead of ingest. The tests cover the distribution of connections, health and metrics
 * for operators, and killed workers.
 */
import cluster from 'node:cluster';
import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { freePorts } from '@questlog/runtime/log/kafka/testing/brokerProcess';
import { createLifecycle } from '@questlog/runtime/process/lifecycle';
import { silentLogger } from '@questlog/runtime/process/logger';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startWorkers } from './startWorkers.ts';

const WORKER = fileURLToPath(new URL('./testing/aWorker.ts', import.meta.url));
const COUNT = 2;
/** Time after which a connection without a response counts as lost. */
const FORGOTTEN_AFTER_MS = 5_000;
const lifecycle = createLifecycle(silentLogger);
let [games, operators] = ['', ''];
/** Health state while both workers run. */
const BOTH = { problems: {}, warnings: { 'of 1': expect.any(String), 'of 2': expect.any(String) } };
/** Gate at which workers wait before they listen. `atGate` contains the workers that wait. */
const gate = createServer((socket) => {
  atGate.push(socket.on('error', () => {}));
  if (isGateOpen) socket.end();
});
const atGate: Socket[] = [];
let isGateOpen = true;
const ONE_IS_MISSING = { workers: '1 of 2 workers do not answer' };

beforeAll(async () => {
  await once(gate.listen(0, '127.0.0.1'), 'listening');
  const ports = [...(await freePorts(2)), portOf(gate)];
  cluster.setupPrimary({ exec: WORKER, args: [COUNT, ...ports].map(String), execArgv: [] });
  const { baseUrl = '' } = await startWorkers(COUNT, silentLogger, lifecycle);
  [games, operators] = [baseUrl, `http://127.0.0.1:${ports[1]}`];
});
afterAll(async () => {
  await lifecycle.stop();
  gate.close();
});

test('a few keep-alive connections are distributed evenly and stay with their worker', async () => {
  const agents = Array.from({ length: 8 }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
  const first: string[] = [];
  // Sends the requests one after the other, because on a busy machine a worker can be slow to accept a connection.
  for (const agent of agents) first.push(await ask(games, agent));
  const again = await Promise.all(agents.map((agent) => ask(games, agent)));
  for (const agent of agents) agent.destroy();

  expect(again).toEqual(first);
  const counts = [...Map.groupBy(first, String).values()].map(({ length }) => length);
  expect(counts).toHaveLength(COUNT);
  // The workers get connections in turn, except for a worker that has not accepted its last connection yet.
  expect(Math.min(...counts)).toBeGreaterThanOrEqual(2);
});

test('one worker reports health and metrics of both workers', async () => {
  const asked = 20;
  const before = sum(await served());
  for (let n = 0; n < asked; n++) await ask(games);

  const counts = await served();
  expect(counts).toHaveLength(COUNT);
  expect(sum(counts) - before).toBe(asked);
  await expect.poll(state).toEqual(BOTH);
});

test.each([2, 1])(
  'if worker %i is killed, the port stays open, no connection is lost, and the worker restarts',
  async (number) => {
    const outcomes: string[] = [];
    let isOver = false;
    const clients = Array.from({ length: 8 }, async () => {
      while (!isOver) outcomes.push(await ask(games));
    });
    const pid = await pidOf(number);
    await expect.poll(() => outcomes).toContain(pid);
    process.kill(Number(pid), 'SIGKILL');
    if (number === 2) expect(await state()).toMatchObject({ warnings: ONE_IS_MISSING });
    const before = outcomes.length;
    await expect.poll(() => outcomes.length).toBeGreaterThan(before + 100);
    await bothAreBack();
    isOver = true;
    await Promise.all(clients);

    const failures = outcomes.filter((outcome) => !/^\d+$/.test(outcome));
    expect(failures).not.toContain('forgotten');
    // Only the requests that the killed worker was processing may fail.
    expect(failures.length).toBeLessThanOrEqual(clients.length);
  },
);

test('a worker counts as missing until it listens; after all workers ended, the same port opens again', async () => {
  isGateOpen = false;
  const before = atGate.length;
  const second = Number(await pidOf(2));
  process.kill(second, 'SIGSTOP');
  // The parent process is handing one request to the second worker when that worker is killed.
  const outcomes: string[] = [];
  const asked = Array.from({ length: 3 }, async () => outcomes.push(await ask(games)));
  await expect.poll(() => outcomes).toHaveLength(2);
  process.kill(second, 'SIGKILL');
  await Promise.all(asked);
  expect(outcomes.at(-1)).toMatch(/hang up|ECONNRESET/);
  await expect.poll(() => atGate.length).toBe(before + 1);
  expect(await state()).toMatchObject({ warnings: ONE_IS_MISSING });
  process.kill(Number(await pidOf(1)), 'SIGKILL');
  await expect.poll(() => atGate.length).toBe(before + 2);
  expect(await ask(games)).toMatch(/ECONNREFUSED/);

  isGateOpen = true;
  for (const socket of atGate) socket.end();
  await bothAreBack();
  expect(await ask(games)).toMatch(/^\d+$/);
});

test('a stop ends all workers and closes the port', async () => {
  const workers = Object.values(cluster.workers ?? {});
  expect(workers).toHaveLength(COUNT);
  await lifecycle.stop();

  expect(workers.map((one) => one?.process.exitCode)).toEqual([0, 0]);
  expect(await ask(games)).toMatch(/ECONNREFUSED/);
});

/** Returns the response body or the error message. */
function ask(url: string, agent = new Agent()): Promise<string> {
  return new Promise((resolve) => {
    const asked = get(url, { agent, timeout: FORGOTTEN_AFTER_MS }, (response: IncomingMessage) =>
      response.toArray().then(
        (chunks) => resolve(Buffer.concat(chunks).toString()),
        ({ message }) => resolve(message),
      ),
    );
    asked.on('timeout', () => asked.destroy(new Error('forgotten')));
    asked.on('error', ({ message }) => resolve(message));
  });
}

async function served(): Promise<number[]> {
  const lines = (await ask(`${operators}/metrics`)).matchAll(
    /^questlog_events_accepted_total\{worker="\d"\} (\d+)$/gm,
  );
  return [...lines].map(([, count]) => Number(count));
}

async function state(): Promise<{ warnings: Record<string, string> }> {
  return JSON.parse(await ask(`${operators}/readyz`));
}

async function pidOf(worker: number): Promise<string> {
  return (await state()).warnings[`of ${worker}`] ?? '';
}

async function bothAreBack(): Promise<void> {
  await expect.poll(() => state().catch(() => undefined), { timeout: 20_000 }).toEqual(BOTH);
}

const sum = (counts: readonly number[]): number => counts.reduce((a, b) => a + b, 0);

function portOf(server: Server): number {
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}
