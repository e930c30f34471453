/** Tests which bodies are evicted when the memory for bodies is full. */
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { problems } from '@questlog/runtime/http/problems';
import { listen } from '@questlog/runtime/process/listener/listen';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import Koa from 'koa';
import { expect, onTestFinished, test, vi } from 'vitest';
import { withBody } from '../http/readBody.ts';
import { ingestMetrics } from '../metrics.ts';
import { BodyBudget, openBodyLimits, type PendingBody } from './fairSharing.ts';

const MIB = 1024 * 1024;
const FULL = 256 * MIB;

/** Returns a budget that a tenant has filled with 32 bodies, each without its last byte. */
function aFullBudget(whose = 'greedy') {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  let held = 0;
  const budget = new BodyBudget({ set: (bytes) => (held = bytes) });
  const gaveWay: [number, string][] = [];
  const coming = (tenantId: string, bytes: number, name: number): PendingBody => {
    const body = budget.begin(tenantId);
    body.abort = (error) => gaveWay.push([name, Reflect.get(error, 'code') ?? error.name]);
    budget.take(body, bytes);
    return body;
  };
  const bodies = Array.from({ length: 32 }, (_, i) => coming(whose, 8 * MIB - 1, i));
  return { budget, bodies, coming, gaveWay, held: () => held };
}

test('evicts the body that waits longest for its bytes to another tenant’s body', () => {
  const { budget, bodies, coming, gaveWay, held } = aFullBudget();
  const body = coming('other', 20 * 1024, -1);

  expect(gaveWay).toEqual([[0, 'Unavailable']]);
  expect(held()).toBeLessThan(FULL);
  // The read of the evicted body ends later, and must not release its bytes twice.
  budget.end(bodies[0] as PendingBody);
  budget.end(body);
  expect(held()).toBe(31 * (8 * MIB - 1));
});

test('evicts a stalled body, also to its own tenant, and no body before it stalls', () => {
  const { coming, gaveWay } = aFullBudget();
  vi.advanceTimersByTime(4_999);
  expect(() => coming('greedy', 20 * 1024, -1)).toThrow('too many request bodies at once');
  expect(gaveWay).toEqual([]);

  vi.advanceTimersByTime(1);
  coming('greedy', 20 * 1024, -1);
  expect(gaveWay).toEqual([[0, 'request_timeout']]);
});

test('a trickling body stalls, and a steady one does not', () => {
  const { budget, bodies, coming, gaveWay } = aFullBudget();
  budget.end(bodies.pop() as PendingBody);
  for (let second = 0; second < 5; second += 1) {
    vi.advanceTimersByTime(1_000);
    for (const [i, body] of bodies.entries()) budget.take(body, i === 7 ? 1 : 16 * 1024);
  }
  coming('greedy', 8 * MIB, -1);
  expect(gaveWay).toEqual([[7, 'request_timeout']]);
});

test('does not evict a body of a tenant within its share', () => {
  const { budget, bodies, coming, gaveWay } = aFullBudget();
  budget.end(bodies.pop() as PendingBody);
  coming('slow', 8 * MIB - 100 * 1024 * 31, -1);
  vi.advanceTimersByTime(60_000);
  for (const body of bodies) budget.take(body, 100 * 1024);

  expect(() => coming('greedy', MIB, -2)).toThrow('too many request bodies at once');
  expect(gaveWay).toEqual([]);
});

test('does not evict a complete body', () => {
  const { bodies, coming, gaveWay } = aFullBudget();
  for (const body of bodies) body.abort = undefined;
  vi.advanceTimersByTime(60_000);

  expect(() => coming('other', MIB, -1)).toThrow('too many request bodies at once');
  expect(gaveWay).toEqual([]);
});

test('32 connections that withhold their last byte do not delay another tenant', async () => {
  let held = 0;
  const bodies = openBodyLimits({ set: (bytes) => (held = bytes) });
  const app = new Koa().use(problems(silentLogger, ingestMetrics(createMetricsRegistry())));
  app.use((ctx) =>
    withBody(ctx.req, ctx.path, bodies, async (body) => {
      ctx.body = `${body.length} taken`;
    }),
  );
  const at = { host: '127.0.0.1', port: 0, settings: { host: 'HOST', port: 'PORT' } };
  const listener = await listen(app.callback(), at);
  onTestFinished(() => listener.close());
  const send = (tenant: string, announced: number, body: Buffer): Socket => {
    const socket = connect(listener.port, '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    const head = `POST /${tenant} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json`;
    socket.write(`${head}\r\nConnection: close\r\nContent-Length: ${announced}\r\n\r\n`);
    socket.write(body);
    return socket;
  };
  const most = Buffer.alloc(8 * MIB - 1, ' ');
  const greedy = Array.from({ length: 32 }, () => send('greedy', 8 * MIB, most));
  await vi.waitFor(() => expect(held).toBe(32 * most.length), { timeout: 20_000, interval: 20 });

  expect(await text(send('other', 20_000, most.subarray(0, 20_000)))).toMatch(
    /^HTTP\/1.1 200 .*20000 taken$/s,
  );
  const answers = greedy.map(async (socket) => await text(socket));
  // The result depends on the speed of the machine.
  expect(await Promise.race(answers)).toMatch(/^HTTP\/1.1 (503|408) .*Connection: close\r\n/s);
});
