/** Tests the counts of several processes in a real ClickHouse. */
import { fileURLToPath } from 'node:url';
import { aClickHouse } from '@questlog/runtime/clickhouse/chdb/testing/aClickHouse';
import { openMigrated } from '@questlog/runtime/clickhouse/migrate';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { expect, test } from 'vitest';
import { openRejections } from './rejections.ts';

const MIGRATIONS = fileURLToPath(new URL('../../../../deploy/clickhouse', import.meta.url));
/** Current minute. The rows must be recent, because the table removes old rows. */
const BEGIN_MS = Math.floor(Date.now() / 60_000) * 60_000;

/** Runs a process that counts rejections of one field and then stops. */
async function aProcess(insert: Store['insert'], count: number, nowMs: number): Promise<void> {
  const closers: (() => Promise<void> | void)[] = [];
  const { record: note } = openRejections({
    store: { insert },
    clock: { now: () => nowMs },
    logger: silentLogger,
    lifecycle: { onStop: (_, close) => closers.push(close) },
    dropped: { inc: () => expect.unreachable('nothing is dropped') },
  });
  const reject = { kind: 'rejected', code: 'field_type', index: 0, pointer: '/payload' } as const;
  const request = {
    principal: undefined,
    endpoint: 'POST /v1/ingest/events',
    token: '',
    failedAt: undefined,
  };
  for (let n = 0; n < count; n++)
    note({ ...request, body: Buffer.from(`{"payload":${count}}`), rejections: [reject] });
  for (const close of closers) await close();
}

test('rows of several processes add up, also before a merge, and a repeated insert counts once', async () => {
  await using clickhouse = await aClickHouse({ hasTables: true });
  const { url, username, password } = clickhouse.server;
  const store = await openMigrated({ url, username, password, database: 'questlog' }, MIGRATIONS);
  try {
    let inserts = 0;
    // Two processes write identical rows. Both rows count.
    for (const _ of [1, 2]) await aProcess(store.insert, 3, BEGIN_MS + 10_000);
    await aProcess(
      async (insert) => {
        await store.insert(insert);
        inserts++;
        if (inserts === 1) throw new Unavailable('the answer was lost');
      },
      4,
      BEGIN_MS + 50_000,
    );
    expect(inserts).toBe(2);
    const ask = () =>
      store.query(`SELECT toString(toUnixTimestamp(minute)) AS minute, kind, code, field, count, requests,
          toString(toUnixTimestamp(last_seen)) AS seen, sample FROM rejects`);
    const row = {
      ...{ minute: String(BEGIN_MS / 1000), kind: 'rejected', code: 'field_type', field: '/payload' },
      ...{
        count: '10',
        requests: '10',
        seen: String(BEGIN_MS / 1000 + 50),
        sample: expect.stringMatching(/^[34]$/),
      },
    };
    expect(await ask()).toEqual([row]);
    await store.command('OPTIMIZE TABLE reject_counts FINAL');
    expect(await ask()).toEqual([row]);
    expect(await store.query('SELECT count() AS n FROM reject_counts')).toEqual([{ n: '1' }]);
  } finally {
    await store.close();
  }
});
