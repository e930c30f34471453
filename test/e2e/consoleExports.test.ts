/** Tests exports to a bucket in the console in a real Chromium. The bucket is a small HTTP server with the operations of S3. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import type { AuditRecord } from '@questlog/schemas/http/audit';
import { expect, test } from 'vitest';
import { anEvent, anUnknownId, eventually } from './builders.ts';
import { describeInChromium } from './chromium.ts';
import { aChromium } from './consolePage.ts';
import { erase } from './erasing.ts';
import { ownProduct } from './sharedProduct.ts';

const objects = new Map<string, Buffer>();
let isBucketGone = false;
const server = createServer((request, response) => void answer(request, response));
await once(server.listen(0, '127.0.0.1'), 'listening');
server.unref();
const address = server.address();
const S3 = {
  QUESTLOG_S3_ENDPOINT: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
  QUESTLOG_S3_ACCESS_KEY_ID: 'id',
  QUESTLOG_S3_SECRET_ACCESS_KEY: 'secret',
};

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const content = await buffer(request);
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://s3');
  const object = objects.get(pathname);
  const isList = searchParams.has('list-type');
  if (isBucketGone)
    return void response
      .writeHead(404)
      .end('<Error><Code>NoSuchBucket</Code><Message>no bucket</Message></Error>');
  if (isList) return void response.end('<ListBucketResult></ListBucketResult>');
  if (request.method === 'PUT') objects.set(pathname, content);
  if (request.method === 'DELETE') objects.delete(pathname);
  const isMissing = request.method === 'GET' || request.method === 'HEAD' ? object === undefined : false;
  if (isMissing) response.writeHead(404).end('<Error><Code>NoSuchKey</Code></Error>');
  else response.end(request.method === 'GET' ? object : undefined);
}

describeInChromium('an operator', () => {
  const shared = ownProduct({ env: S3 });
  const chromium = aChromium();

  test('exports a project to a bucket, and deletes the export after the bucket was deleted', async () => {
    const { product } = shared;
    const game = await shared.aProject({ revision: 'B', name: `Game ${anUnknownId()}` });
    expect((await game.post(anEvent())).status).toBe(201);
    await eventually(
      () =>
        product.sql(
          `SELECT event_type FROM events WHERE project_id = '${game.projectId}'
             AND log_offset < (SELECT max(next_offset) FROM projected_offsets WHERE topic = 'questlog.events.v1')`,
        ),
      (rows) => rows.length === 1,
    );
    const page = await chromium.signedIn(product, 'manage');
    await page.getByRole('banner').getByRole('combobox').selectOption(game.projectId);
    const dialog = page.getByRole('dialog');
    const row = page.getByRole('region', { name: 'Exports' }).locator('tbody tr');

    await page.getByRole('button', { name: 'New export' }).click();
    await dialog.getByLabel('Format').selectOption('ndjson');
    await dialog.getByLabel('Bucket and prefix').fill('games');
    await dialog.getByLabel('First day').fill('2020-01-01');
    await dialog.getByLabel('Hours between two runs').fill('24');
    await page.keyboard.press('Enter');
    await dialog.getByText('“Bucket and prefix” must').waitFor();
    await dialog.getByLabel('Bucket and prefix').fill('s3://games/exported');
    await page.keyboard.press('Enter');
    await row.getByText('done', { exact: true }).waitFor();
    await row.getByText('every 24 h').waitFor();
    await row.getByText('1 rows').waitFor();
    const files = [...objects].filter(([path]) => path.endsWith('.ndjson'));
    expect(files.map(([, content]) => JSON.parse(content.toString()).project_id)).toEqual([game.projectId]);

    isBucketGone = true;
    const { tenantId, projectId } = game;
    const erasure = await erase(product, { tenantId, projectId });
    await row.getByText(/no bucket/).waitFor({ timeout: 60_000 });
    await page.getByRole('button', { name: 'Delete: s3://games/exported' }).click();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await dialog.getByText(`can contain rows of the erasure ${erasure}`).waitFor();
    await dialog.getByLabel('even if its files can contain erased rows').check();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No export yet.').waitFor();

    const { receipt } = (await product.admin('GET', `/admin/erasures/${erasure}`)).json();
    expect(receipt.exports).toMatchObject([
      { path: `s3://games/exported/events/${projectId}`, comparedAt: null },
    ]);
    expect(receipt.exports[0].problem).toMatch(
      /deleted at .*; 1 files with 1 rows of the last complete run, .* stay in/,
    );
    const records = await eventually(
      async (): Promise<AuditRecord[]> =>
        (await product.admin('GET', `/admin/audit?project=${projectId}`)).json().audit,
      (audit) => audit.some(({ method, status }) => method === 'DELETE' && status === 204),
    );
    expect(records[0]).toMatchObject({
      ...{ route: '/admin/exports/:id', body: { force: 'true' }, after: null },
      before: { path: receipt.exports[0].path, files: 1, rows: 1 },
    });
  });
});
