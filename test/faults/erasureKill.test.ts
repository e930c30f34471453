/** Tests that an erasure continues after a kill, and that a ClickHouse that is rebuilt from the log has no erased rows. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase } from '@questlog/runtime/log/embedded/database';
import { expect, onTestFinished, test } from 'vitest';
import { anEvent, aProject, events, eventually, onto } from '../e2e/builders.ts';
import * as erasing from '../e2e/erasing.ts';
import { bugsIn, type Product, removeDataDir, startProduct } from '../e2e/product.ts';

test('erases a project up to the request although the process is killed, also in a ClickHouse that is rebuilt from the log', async () => {
  let product = await startProduct();
  onTestFinished(async () => {
    await product.stop();
    expect(bugsIn(product.stderr())).toEqual([]);
    await removeDataDir(product);
  });
  await erasing.shortenPartLifetime(product);
  const game = await aProject(product);
  const beside = await aProject(product, { tenantId: game.tenantId });
  for (const one of [game, beside]) {
    await one.post(events(20, { sessionId: one.sessionId }));
    await erasing.waitForRows(product, one, 20);
    await erasing.waitForRows(product, one, 1, 'sessions');
  }
  const others = await erasing.checksumOf(product, beside);
  const { tenantId, projectId } = game;
  const id = await erasing.erase(product, { tenantId, projectId });
  await product.kill();
  product = await startProduct({ dataDir: product.dataDir });
  const receipt = await erasing.waitUntilDone(product, id);
  expect(receipt.found).toMatchObject({ events: 20, sessions: 1, reports: 0 });
  expect(await erasing.countsOf(product, game)).toEqual([0, 0, 0, 0]);
  expect(await erasing.checksumOf(product, beside)).toEqual(others);
  const again = onto(game, product);
  const next = await again.session();
  await again.post(anEvent({ sessionId: next }));
  await erasing.waitForRows(product, game, 1);
  const listed = (await product.admin('GET', erasing.ERASURES)).json();
  expect(listed[0]).toMatchObject({ id, state: 'done' });
  await erasing.expectVerified(product);

  product = await madeAnew(product);
  expect(await erasing.countsOf(product, game)).toEqual([1, 1, 0, 0]);
  expect(await erasing.countsOf(product, beside)).toEqual([20, 1, 0, 0]);
  expect((await onto(game, product).get('/v1/quota')).json().used).toBe(41);
  await erasing.expectVerified(product);
});

/** Deletes ClickHouse and rebuilds it from the log. */
async function madeAnew(product: Product): Promise<Product> {
  expect(await product.stop()).toBe(0);
  const { dataDir } = product;
  rmSync(join(dataDir, 'clickhouse'), { recursive: true });
  const log = openDatabase(join(dataDir, 'log'));
  log.sqlite.exec(`DELETE FROM commits WHERE consumer_group LIKE 'questlog-project-%'`);
  log.close();
  const next = await startProduct({ dataDir });
  await eventually(
    async () => (await next.admin('GET', '/admin/lag')).json(),
    ({ consumers }) => consumers.every(({ lagRecords }: { lagRecords: number }) => lagRecords === 0),
    30_000,
  );
  return next;
}
