/** Tests the count of ingest processes with the ledger of a real ClickHouse. */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { aClickHouse } from '@questlog/runtime/clickhouse/chdb/testing/aClickHouse';
import { openMigrated } from '@questlog/runtime/clickhouse/migrate';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { silentLogger } from '@questlog/runtime/process/logger';
import { expect, test } from 'vitest';
import { openRequestOutcomes } from '../ledger/requestOutcomes.ts';
import { watchIngestCount } from './ingestCount.ts';

const MIGRATIONS = fileURLToPath(new URL('../../../../deploy/clickhouse', import.meta.url));
/** Start of the current minute, because the table drops old rows. */
const BEGIN_MS = Math.floor(Date.now() / 60_000) * 60_000;

test('counts each process once that recently served the tenant, in addition to this one', async () => {
  await using clickhouse = await aClickHouse({ hasTables: true });
  const { url, username, password } = clickhouse.server;
  const store = await openMigrated({ url, username, password, database: 'questlog' }, MIGRATIONS);
  try {
    const [tenantId, quiet, processId] = [randomUUID(), randomUUID(), randomUUID()];
    const answeredAt = (nowMs: number, of: string, at = randomUUID()) =>
      answered(store, { nowMs, processId: at, notes: [of, of] });
    await answeredAt(BEGIN_MS - 61_000, tenantId);
    await answeredAt(BEGIN_MS - 1_000, tenantId);
    await answeredAt(BEGIN_MS + 1_000, tenantId);
    await answeredAt(BEGIN_MS + 1_000, tenantId, processId);
    await answeredAt(BEGIN_MS + 1_000, quiet, processId);
    const clock = { ms: BEGIN_MS - 30_000 };
    const ingestsOf = watchIngestCount(
      { store, clock: { now: () => clock.ms }, logger: silentLogger },
      processId,
    );
    const known = (of: string) => expect.poll(() => ingestsOf(of));

    expect(ingestsOf(tenantId)).toBe(1);
    clock.ms = BEGIN_MS + 5_000;
    // The ledger has one other process in the last minute, and one other process in this minute.
    await known(tenantId).toBe(3);
    ingestsOf(quiet);
    clock.ms = BEGIN_MS + 15_000;
    await known(tenantId).toBe(2);
    expect(ingestsOf(quiet)).toBe(1);
  } finally {
    await store.close();
  }
});

test('keeps the last count while ClickHouse is unavailable', async () => {
  const clock = { ms: 0 };
  let isAway = false;
  let asked = 0;
  const query = async (): Promise<unknown[]> => {
    asked++;
    if (isAway) throw new Error('away');
    return [{ tenantId: 'a', ingests: '2' }];
  };
  const store = { query } as unknown as Store;
  const ingestsOf = watchIngestCount({ store, clock: { now: () => clock.ms }, logger: silentLogger }, 'p');
  ingestsOf('a');
  await expect.poll(() => ingestsOf('a')).toBe(3);
  isAway = true;
  clock.ms += 2_000;
  ingestsOf('a');
  await expect.poll(() => asked).toBe(2);
  expect(ingestsOf('a')).toBe(3);
});

/** Writes the same rows as a process that stops after its responses. */
async function answered(
  store: Store,
  { nowMs, processId, notes }: { nowMs: number; processId: string; notes: readonly string[] },
): Promise<void> {
  const closers: (() => Promise<void> | void)[] = [];
  const deps = {
    ...{ store, clock: { now: () => nowMs }, logger: silentLogger },
    lifecycle: { onStop: (_: string, close: () => Promise<void>) => closers.push(close) },
    dropped: { inc: () => expect.unreachable('nothing is dropped') },
  };
  const received = openRequestOutcomes(deps, processId);
  for (const tenantId of notes) received.push({ tenantId, outcome: 'accepted', accepted: undefined });
  for (const close of closers) await close();
}
