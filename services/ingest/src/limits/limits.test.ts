/** Tests the rates of projects and tenants, and the responses to rejected requests. */
import { randomUUID } from 'node:crypto';
import type { Principal } from '@questlog/runtime/directory/directory';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import type { RateLimits } from '@questlog/schemas/topics/directoryEntry';
import { expect, test } from 'vitest';
import { ingestMetrics } from '../metrics.ts';
import { openLimits } from './limits.ts';

const NONE = { eventsPerSecond: null, requestsPerSecond: null, bytesPerSecond: null, burstSeconds: 10 };

test('a tenant’s limit covers all its projects, and excludes what a project’s limit rejects', () => {
  const { limits } = anIngest();
  const tenantId = randomUUID();
  const wide = { ...NONE, eventsPerSecond: 10 };
  const narrow = { ...NONE, eventsPerSecond: 1 };
  const [one, other] = [aCaller(tenantId, wide), aCaller(tenantId, wide, narrow)];

  expect(limits.acquireEvents(one, 60, 60).count).toBe(60);
  expect(limits.acquireEvents(other, 8, 8).count).toBe(8);
  expect(limits.acquireEvents(other, 8, 8).count).toBe(0);
  expect(limits.acquireEvents(one, 33, 33).count).toBe(0);
  expect(limits.acquireEvents(one, 32, 32).count).toBe(32);
});

test('a rejection has the retry time, and the policies as structured fields', () => {
  const { limits, clock } = anIngest();
  const tenantId = randomUUID();
  const caller = aCaller(
    tenantId,
    { ...NONE, eventsPerSecond: 100 },
    { ...NONE, eventsPerSecond: 20, burstSeconds: 5 },
  );
  limits.acquireEvents(caller, 90, 90);
  clock.ms += 500;
  const { count, rejection: refusal } = limits.acquireEvents(caller, 50, 50);

  expect(count).toBe(0);
  expect(refusal).toMatchObject({
    code: 'rate_limited',
    message: 'the project may send 20 events a second; try again in 2 s',
    headers: {
      'Retry-After': '2',
      'RateLimit-Policy': '"project-events";q=100;w=5;qu="events", "tenant-events";q=1000;w=10;qu="events"',
      RateLimit: '"project-events";r=20;t=2, "tenant-events";r=960;t=1',
    },
  });
  clock.ms += 2_000;
  expect(limits.acquireEvents(caller, 50, 50).count).toBe(50);
});

test('stores the first events that fit if a partial result is allowed', () => {
  const { limits } = anIngest();
  const caller = aCaller(randomUUID(), { ...NONE, eventsPerSecond: 1 });
  limits.acquireEvents(caller, 7, 1);
  const taken = [limits.acquireEvents(caller, 5, 1), limits.acquireEvents(caller, 2, 1)];

  expect(taken.map(({ count, rejection: refusal }) => [count, refusal?.headers['Retry-After']])).toEqual([
    [3, '2'],
    [0, '2'],
  ]);
});

test('each ingest process has an equal share of the rate', () => {
  const ingests = { count: 4 };
  const { limits, clock } = anIngest(() => ingests.count);
  const caller = aCaller(randomUUID(), { ...NONE, eventsPerSecond: 8 });
  expect(limits.acquireEvents(caller, 80, 1).count).toBe(80);
  clock.ms += 30_000;
  expect(limits.acquireEvents(caller, 1, 1).count).toBe(0);
  clock.ms += 10_000;
  expect(limits.acquireEvents(caller, 19, 1).count).toBe(19);
  ingests.count = 1;
  clock.ms += 2_000;
  expect(limits.acquireEvents(caller, 20, 1).count).toBe(17);
});

test('rejects requests and announced bytes before the body, and counts them by their limit', async () => {
  const { limits, metrics } = anIngest();
  const tenantId = randomUUID();
  const caller = aCaller(tenantId, null, {
    ...NONE,
    requestsPerSecond: 1,
    bytesPerSecond: 100,
    burstSeconds: 2,
  });
  limits.admit(caller, { 'content-length': '150' });

  expect(() => limits.admit(caller, { 'content-length': '51' })).toThrow(
    /100 bytes a second; try again in 1 s/,
  );
  expect(() => limits.admit(caller, { 'content-length': '0' })).toThrow(/1 requests a second/);
  // The headers contain the length of this body, so its bytes are counted already.
  limits.admitBody(caller, { 'content-length': '51' }, 51);
  limits.admitBody(caller, {}, 50);
  expect(() => limits.admitBody(caller, {}, 1)).toThrow(/bytes a second/);
  const { values } = await metrics.rateLimited.get();
  expect(values.map(({ labels, value }) => [labels.limit, value])).toEqual([
    ['project-bytes', 2],
    ['project-requests', 1],
  ]);
});

test('does not count projects without limits, or request the number of ingest processes', () => {
  const { limits } = anIngest(() => expect.unreachable('it was asked'));
  const caller = aCaller(randomUUID(), null, null);
  limits.admit(caller, { 'content-length': '8000000' });

  expect(limits.acquireEvents(caller, 500, 500)).toEqual({ count: 500 });
});

test('rejects writes of a suspended project or tenant', () => {
  const { limits } = anIngest();
  const { tenant, project, ...rest } = aCaller(randomUUID(), null);
  const headers = {};

  expect(() => limits.admit({ ...rest, tenant, project: { ...project, suspended: true } }, headers)).toThrow(
    expect.objectContaining({
      code: 'suspended',
      message: expect.stringMatching(/^the project is suspended/),
    }),
  );
  expect(() => limits.admit({ ...rest, project, tenant: { ...tenant, suspended: true } }, headers)).toThrow(
    expect.objectContaining({
      code: 'suspended',
      message: expect.stringMatching(/^the tenant is suspended/),
    }),
  );
});

function anIngest(ingestsOf: () => number = () => 1) {
  const clock = { ms: 1_000_000 };
  const metrics = ingestMetrics(createMetricsRegistry());
  return {
    clock,
    metrics,
    limits: openLimits({ now: () => clock.ms }, metrics, ingestsOf),
  };
}

function aCaller(
  tenantId: string,
  ofTenant: RateLimits | null,
  ofProject: RateLimits | null = null,
): Principal {
  const named = { name: 'N', createdAt: 1 };
  return {
    tenant: { ...named, id: tenantId, monthlySoftQuota: null, spread: 1, limits: ofTenant },
    project: { ...named, id: randomUUID(), tenantId, revision: null, limits: ofProject },
    revision: 'B',
    tokenId: randomUUID(),
    scopes: ['events:write'],
  };
}
