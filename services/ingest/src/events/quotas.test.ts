/** How the use of the quotas is read: this month's, in time that grows with the tenants and not with their square. */
import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { silentLogger } from '@questlog/runtime/process/logger';
import type { Tenant } from '@questlog/schemas/topics/directoryEntry';
import { expect, onTestFinished, test } from 'vitest';
import { openQuotas } from './quotas.ts';

const LOG_ID = randomUUID();
const NOW_MS = Date.UTC(2026, 10, 21, 12);
const PARTITIONS = [0, 1, 2];

test('a refresh asks for the months in use and looks at each row once, however many tenants there are', async () => {
  const tenants = Array.from({ length: 100 }, aTenant);
  const { quotas, asked } = aProcess(tenants);
  for (const tenant of tenants) await quotas.ledger(tenant, '2026-11');
  await expect.poll(() => asked.at(-1)?.tenants.length).toBe(tenants.length);

  const refresh = asked.at(-1);
  expect(refresh?.months).toEqual(['2026-11-01']);
  expect(refresh?.looks).toBe(tenants.length * PARTITIONS.length);
  const ledger = await quotas.ledger(tenants[7] ?? aTenant(), '2026-11');
  expect(ledger?.used()).toBe(PARTITIONS.length * 5);
});

interface Asked {
  readonly tenants: readonly string[];
  readonly months: readonly string[];
  /** How often it was read whose row one is. */
  looks: number;
}

/** ClickHouse has five events of each tenant in each partition. */
function aProcess(tenants: readonly Tenant[]) {
  const asked: Asked[] = [];
  const query = async (_: string, params: Omit<Asked, 'looks'>): Promise<object[]> => {
    const one: Asked = { ...params, looks: 0 };
    asked.push(one);
    return tenants.flatMap(({ id }) =>
      PARTITIONS.map((partition) => ({
        get tenantId() {
          one.looks++;
          return id;
        },
        usedIn: '2026-11',
        logId: LOG_ID,
        partition,
        used: '5',
        lastOffset: '9',
      })),
    );
  };
  const quotas = openQuotas({
    store: { query } as unknown as Store,
    projection: { caughtUp: async () => {}, projected: async () => [10, 10, 10] },
    logId: LOG_ID,
    clock: { now: () => NOW_MS },
    logger: silentLogger,
  });
  onTestFinished(() => quotas.close());
  return { quotas, asked };
}

function aTenant(): Tenant {
  return { id: randomUUID(), name: 'T', monthlySoftQuota: 1_000, spread: 1, createdAt: 1 };
}
