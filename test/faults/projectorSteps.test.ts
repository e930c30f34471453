/**
 * A kill between any two steps of a block leaves nothing out and nothing twice. The steps are seen from outside: each
 * insert of the projector is a file in `incoming/` that comes before the insert and goes after it.
 */
import { type FSWatcher, watch } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { aKey, aProject, events, eventually, type TestProject } from '../e2e/builders.ts';
import { type Answer, type Product, removeDataDir, startProduct } from '../e2e/product.ts';
import { quotaOf } from './killCampaign.ts';

/** In the order in which a block of events is written. */
const INSERTS = ['events', 'appends', 'quota_usage_by_partition', 'event_counts_by_partition'] as const;
const BATCH = 50;
const KILLED_WITHIN_MS = 10_000;

describe('a block whose projector is killed', () => {
  let product: Product;
  let project: TestProject;
  let sent = 0;

  beforeAll(async () => {
    product = await startProduct();
    project = await aProject(product, { revision: 'A' });
    // The registrations are inserts too; theirs must be over.
    await eventually(
      () => product.sql('SELECT id FROM sessions'),
      (rows) => rows.length === 2,
    );
  });

  afterAll(async () => {
    await product.stop();
    await removeDataDir(product);
  });

  const post = (body: unknown, key: string): Promise<Answer> =>
    product.request('POST', '/v1/ingest/events', {
      body,
      headers: { Authorization: `Bearer ${project.token}`, 'Idempotency-Key': key },
    });

  for (const [step, table] of INSERTS.entries()) {
    for (const [position, when] of ['before', 'after'].entries()) {
      it(`${when} its insert into ${table} is there once, and counted once`, async () => {
        const body = events(BATCH, { sessionId: project.sessionId });
        const key = aKey();
        const killed = killAtChange(product, 2 * step + position + 1);
        const first = await post(body, key).catch(() => undefined);
        await killed;
        const { dataDir } = product;
        product = await startProduct({ dataDir });
        const again = await eventually(
          () => post(body, key),
          ({ status }) => status !== 503,
        );
        sent += BATCH;

        if (first !== undefined) expect(idsOf(again)).toEqual(idsOf(first));
        expect((await quotaOf(product, project.token)).used).toBe(sent);
        expect(await product.sql(EVERY_COUNT)).toEqual([
          { events: sent, distinct: sent, appended: sent, quota: sent, minutes: sent },
        ]);
      });
    }
  }
});

const EVERY_COUNT = `SELECT toUInt32(count()) AS events, toUInt32(uniqExact(id)) AS distinct,
  (SELECT toUInt32(sum(events)) FROM appends) AS appended,
  (SELECT toUInt32(sum(used)) FROM quota_usage) AS quota,
  (SELECT toUInt32(sum(count)) FROM event_counts_by_minute) AS minutes
  FROM events`;

/** Kills the product when the n-th change from now on is seen in the folder of inserts' files. */
async function killAtChange(product: Product, nth: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let changes = 0;
  const watcher: FSWatcher = watch(join(product.dataDir, 'clickhouse', 'incoming'), (change) => {
    // Writing into a file is a `change`; its coming and going are a `rename`.
    if (change !== 'rename' || ++changes !== nth) return;
    resolve(product.kill());
  });
  const timer = setTimeout(() => reject(new Error(`only ${changes} changes`)), KILLED_WITHIN_MS);
  await promise.finally(() => {
    clearTimeout(timer);
    watcher.close();
  });
}

function idsOf(answer: Answer): string[] {
  const answered: { id: string }[] = answer.json();
  return answered.map(({ id }) => id);
}
