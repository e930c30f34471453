/** Tests how the use of quotas is read, and that the cost of the reads grows linearly with the number of tenants. */
import { randomUUID } from 'node:crypto';
import { MAX_IDS_PER_QUERY, type Store } from '@questlog/runtime/clickhouse/store';
import type { Log } from '@questlog/runtime/log/log';
import { Unavailable } from '@questlog/runtime/process/errors';
import { stopsInTime } from '@questlog/runtime/process/testing/stopsInTime';
import type { Tenant } from '@questlog/schemas/topics/directoryEntry';
import { expect, onTestFinished, test } from 'vitest';
import { monthOf, openQuotas } from './quotas.ts';

const LOG_ID = randomUUID();
const NOW_MS = Date.UTC(2026, 10, 21, 12);
const MONTH = '2026-11';
const PARTITIONS = [0, 1, 2];
/** Number of events of each tenant in ClickHouse. */
const USED = PARTITIONS.length * 5;
const MINUTE_MS = 60_000;
const PACE = { refreshMs: 20, nearMs: 10 };

test('a refresh reads the rows of the months in use once, for any number of tenants', async () => {
  const tenants = Array.from({ length: 4_000 }, () => aTenant());
  const { quotas, asked, rollup } = aProcess(tenants);
  const ledgers = await Promise.all(tenants.map((tenant) => quotas.ledger(tenant, MONTH)));
  expect(new Set(ledgers.map((ledger) => ledger?.used()))).toEqual(new Set([USED]));
  rollup.used = '6';
  const refreshed = new Set([PARTITIONS.length * 6]);
  await expect.poll(() => new Set(ledgers.map((ledger) => ledger?.used()))).toEqual(refreshed);

  expect(Math.max(...asked.map((one) => one.tenants.length))).toBeLessThanOrEqual(MAX_IDS_PER_QUERY);
  expect(new Set(asked.flatMap(({ months }) => months))).toEqual(new Set(['2026-11-01']));
  const looks = asked.slice(0, -1).map((one) => one.looks / one.tenants.length);
  expect(new Set(looks)).toEqual(new Set([PARTITIONS.length]));
});

test('the first requests of a tenant wait at most two seconds for earlier processes’ appends', async () => {
  const tenant = aTenant();
  const { quotas, asked, waits } = aProcess([tenant]);
  const ledgers = await Promise.all([quotas.ledger(tenant, MONTH), quotas.ledger(tenant, MONTH)]);
  expect(ledgers[0]?.used()).toBe(USED);
  expect(ledgers[1]).toBe(ledgers[0]);
  expect([await quotas.ledger(tenant, MONTH), asked.length, waits]).toEqual([
    ledgers[0],
    1,
    [['all', 2_000]],
  ]);
  // The use of another month starts at zero.
  expect((await quotas.ledger(tenant, '2026-12'))?.used()).toBe(0);
  expect([NOW_MS, Date.UTC(2026, 0)].map(monthOf)).toEqual([MONTH, '2026-01']);
});

test('a lagging or silent projector blocks no events', async () => {
  const tenant = aTenant();
  const { quotas, asked, logged, broken } = aProcess([tenant]);
  broken.caughtUp = new Unavailable('it lags');
  broken.projected = new Unavailable('the broker is away');
  const ledger = await quotas.ledger(tenant, MONTH);
  expect(ledger?.used()).toBe(USED);
  expect(logged).toEqual(['quota_from_lagging_rollup']);
  // Own appends count until the rollup includes them.
  ledger?.reserve(2);
  ledger?.confirm(0, 50, 2);
  await expect.poll(() => asked.length).toBeGreaterThan(2);
  expect(ledger?.used()).toBe(USED + 2);
});

test('neither the first request nor a refresh waits for offsets from silent brokers', async () => {
  const tenant = aTenant();
  const { quotas, broken, rollup } = aProcess([tenant]);
  broken.projected = 'silent';
  const ledger = await quotas.ledger(tenant, MONTH);
  expect(ledger?.used()).toBe(USED);
  ledger?.reserve(2);
  ledger?.confirm(0, 50, 2);
  rollup.used = '6';
  await expect.poll(() => ledger?.used()).toBe(PARTITIONS.length * 6 + 2);
});

test.each(['caughtUp', 'query'] as const)(
  'a first read whose %s fails rejects its request, and the next request reads again',
  async (part) => {
    const tenant = aTenant();
    const { quotas, broken } = aProcess([tenant]);
    const error = new Error('a bug');
    broken[part] = error;
    await expect(quotas.ledger(tenant, MONTH)).rejects.toBe(error);
    broken[part] = undefined;
    expect((await quotas.ledger(tenant, MONTH))?.used()).toBe(USED);
  },
);

test('a tenant without a quota has no ledger, but a tenant whose quota is removed keeps its ledger', async () => {
  const tenant = aTenant();
  const free = { ...tenant, monthlySoftQuota: null };
  const { quotas, asked } = aProcess([tenant]);
  expect(await quotas.ledger(free, MONTH)).toBeUndefined();
  expect(asked).toEqual([]);
  const ledger = await quotas.ledger(tenant, MONTH);
  expect(await quotas.ledger(free, MONTH)).toBe(ledger);
});

test('returns an open ledger without a wait, and marks its tenant as active', async () => {
  const [tenant, free] = [aTenant(), { ...aTenant(), monthlySoftQuota: null }];
  const { quotas, asked, clock } = aProcess([tenant]);
  expect([quotas.ledgerIfOpen(free, MONTH), quotas.ledgerIfOpen(tenant, MONTH)]).toEqual([
    undefined,
    'unopened',
  ]);
  const opening = quotas.ledger(tenant, MONTH);
  expect(quotas.ledgerIfOpen(tenant, MONTH)).toBe('unopened');
  const ledger = await opening;
  clock.nowMs += 10 * MINUTE_MS;
  expect(quotas.ledgerIfOpen({ ...tenant, monthlySoftQuota: null }, MONTH)).toBe(ledger);
  clock.nowMs += 1;
  const there = asked.length;
  await expect.poll(() => asked.length).toBeGreaterThan(there + 1);
  expect(quotas.ledgerIfOpen(tenant, MONTH)).toBe(ledger);
});

test('does not count events that the log has lost', async () => {
  const tenant = aTenant();
  const { quotas } = aProcess([tenant]);
  const ledger = await quotas.ledger(tenant, MONTH);
  ledger?.reserve(2);
  ledger?.confirm(0, 50, 2);
  quotas.onTruncated({ topic: 'events', partition: 0, offset: 50 });
  expect(ledger?.used()).toBe(USED);
});

test('logs a failed refresh, and counts other processes’ appends at the next one', async () => {
  const tenant = aTenant();
  const { quotas, logged, broken, rollup } = aProcess([tenant]);
  const ledger = await quotas.ledger(tenant, MONTH);
  broken.query = new Unavailable('ClickHouse is away');
  await expect.poll(() => logged).toContain('quota_refresh_failed');
  rollup.used = '7';
  broken.query = undefined;
  await expect.poll(() => ledger?.used()).toBe(PARTITIONS.length * 7);
});

test('logs a refresh that fails because of a bug, also while requesting offsets', async () => {
  const tenant = aTenant();
  const { quotas, logged, broken } = aProcess([tenant]);
  await quotas.ledger(tenant, MONTH);
  broken.projected = new Error('a bug');
  await expect.poll(() => logged).toContain('quota_refresh_failed');
});

test('evicts a tenant after ten minutes, and reads its use again when it returns', async () => {
  const [busy, idle] = [aTenant(), aTenant()];
  const { quotas, asked, clock, rollup } = aProcess([busy, idle]);
  const before = await quotas.ledger(idle, MONTH);
  clock.nowMs += 5 * MINUTE_MS;
  await quotas.ledger(busy, MONTH);
  const refreshed = async (): Promise<unknown> => {
    const there = asked.length;
    await expect.poll(() => asked.length).toBeGreaterThan(there + 1);
    return asked.at(-1)?.tenants;
  };
  clock.nowMs += 5 * MINUTE_MS;
  expect(await refreshed()).toEqual([idle.id, busy.id]);
  clock.nowMs += 1;
  expect(await refreshed()).toEqual([busy.id]);
  rollup.used = '6';
  const after = await quotas.ledger(idle, MONTH);
  expect([after?.used(), before?.used()]).toEqual([PARTITIONS.length * 6, USED]);
});

test('neither a closed instance nor one without tenants queries, while another one continues', async () => {
  const tenant = aTenant();
  const [closed, open, idle] = [aProcess([tenant]), aProcess([tenant]), aProcess([])];
  for (const { quotas } of [closed, open]) await quotas.ledger(tenant, MONTH);
  await closed.quotas.close();
  const there = closed.asked.length;
  await expect.poll(() => open.asked.length).toBeGreaterThan(3);
  expect([closed.asked.length, idle.asked.length]).toEqual([there, 0]);
});

test('a stop does not wait for a silent ClickHouse, and ignores the result of its last read', async () => {
  const tenant = aTenant();
  const { quotas, asked, logged, broken, silence } = aProcess([tenant]);
  await quotas.ledger(tenant, MONTH);
  const silent = Promise.withResolvers<void>();
  silence.ends = silent.promise;
  const there = asked.length;
  await expect.poll(() => asked.length).toBe(there + 1);
  expect(await stopsInTime(() => quotas.close())).toBe(true);

  broken.query = new Unavailable('ClickHouse was closed');
  silent.resolve();
  await quotas.close();
  expect(logged).toEqual([]);
});

interface Asked {
  readonly tenants: readonly string[];
  readonly months: readonly string[];
  /** Number of checks of a row's tenant. */
  looks: number;
}

/** Creates a process. Its ClickHouse has five events of each tenant in each partition. */
function aProcess(tenants: readonly Tenant[]) {
  const [asked, waits, logged]: [Asked[], unknown[][], string[]] = [[], [], []];
  const broken: { caughtUp?: Error | undefined; query?: Error | undefined; projected?: Error | 'silent' } =
    {};
  const clock = { nowMs: NOW_MS, now: () => clock.nowMs };
  const rollup = { used: '5' };
  const known = new Set(tenants.map(({ id }) => id));
  const silence: { ends?: Promise<void> } = {};
  const query = async (_: string, params: Omit<Asked, 'looks'>): Promise<object[]> => {
    const one: Asked = { ...params, looks: 0 };
    asked.push(one);
    await silence.ends;
    if (broken.query !== undefined) throw broken.query;
    const there = params.tenants.filter((id) => known.has(id));
    return there.flatMap((id) =>
      PARTITIONS.map((partition) => ({
        get tenantId() {
          one.looks++;
          return id;
        },
        usedIn: MONTH,
        logId: LOG_ID,
        partition,
        used: rollup.used,
        lastOffset: '9',
      })),
    );
  };
  const projection = {
    caughtUp: async (...of: unknown[]): Promise<void> => {
      waits.push(of);
      if (broken.caughtUp !== undefined) throw broken.caughtUp;
    },
    projected: async (): Promise<number[]> => {
      if (broken.projected === 'silent') await new Promise(() => undefined);
      if (broken.projected !== undefined) throw broken.projected;
      return [10, 10, 10];
    },
  };
  const log = (event: string) => void logged.push(event);
  const logger = { info: log, warn: log, error: log };
  const store = { query } as unknown as Store;
  const quotas = openQuotas({ store, log: { id: LOG_ID } as Log, clock, logger }, projection, PACE);
  onTestFinished(() => quotas.close());
  return { quotas, asked, waits, logged, broken, clock, rollup, silence };
}

/** Returns a tenant whose use is near its quota, so that the rollup is read often. */
function aTenant(): Tenant {
  return { id: randomUUID(), name: 'T', monthlySoftQuota: 1_000, spread: 1, createdAt: 1 };
}
