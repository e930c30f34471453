/** Tests a full disk. Requests get a 503, no acknowledged event is lost, and Questlog continues when there is space again. */
import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { makeOldLogFile } from '@questlog/runtime/log/embedded/testing/oldLogFile';
import { expect, test } from 'vitest';
import { smallDisk } from '../smallDisk.ts';
import { eventually } from './builders.ts';
import { type Answer, bugsIn, type Product, startProduct } from './product.ts';
import { questlogCommand } from './questlogCommand.ts';

const KIB = 1024;
const DISK_BYTES = 64 * KIB * KIB;
/** Size of a payload in bytes. The payload is random text, which neither the log nor ClickHouse can compress much. */
const PAYLOAD_BYTES = 24 * KIB;
const REJECTIONS = 25;

const { path: disk, lacking, fill } = smallDisk(DISK_BYTES);
if (lacking !== undefined) console.warn(`skipped: ${lacking}`);

test.skipIf(lacking !== undefined)(
  'a disk that fills up under load loses no acknowledged event',
  { timeout: 120_000 },
  async () => {
    const product = await startProduct({ dataDir: disk });
    const acknowledged: string[] = [];

    const ballast = fill({ leaveBytes: 6 * KIB * KIB });
    const rejected = await postUntilRejected(product, acknowledged);
    const readWhileFull = await product.request('GET', '/v1/quota');
    const readyz = await fetch(`${product.credentials.adminUrl}/readyz`);
    expect(await readyz.json()).toMatchObject({ warnings: { disk: expect.stringContaining(disk) } });
    const rest = fill({ name: 'rest' });
    const queries = await Promise.all(
      [1, 100_000].map((rows) =>
        product.admin('POST', '/admin/sql', { query: `SELECT number FROM numbers(${rows})` }),
      ),
    );
    rmSync(rest);
    rmSync(ballast);

    for (const answer of rejected) {
      expect(answer.status).toBe(503);
      expect(answer.json().code).toBe('unavailable');
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
    }
    expect([200, 503]).toContain(readWhileFull.status);
    // Both queries fail, because the disk cannot buffer their complete results.
    expect(queries.map(({ status }) => status)).toEqual([503, 503]);
    expect(acknowledged.length).toBeGreaterThan(0);

    const back = await eventually(
      () => post(product),
      ({ status }) => status === 201,
      60_000,
    );
    acknowledged.push(back.json()[0].id);
    await eventually(
      () => product.request('GET', '/v1/quota'),
      ({ status }) => status === 200,
      60_000,
    );
    const rows = await product.sql<{ id: string }>('SELECT id FROM events');
    const stored = rows.map(({ id }) => id);
    expect(acknowledged.filter((id) => !stored.includes(id))).toEqual([]);
    expect(new Set(stored).size).toBe(stored.length);

    expect(await product.stop()).toBe(0);
    expect(bugsIn(product.stderr())).toEqual([]);
  },
);

test.skipIf(lacking !== undefined)(
  'uploads leave disk space for events, and are accepted again after space is freed',
  { timeout: 120_000 },
  async () => {
    const product = await startProduct({ dataDir: join(disk, 'files') });
    const ballast = fill({ leaveBytes: 20 * KIB * KIB });
    await eventually(
      () => putFile(product),
      (status) => status === 503,
      30_000,
    );
    const { id } = (await post(product)).json()[0];
    await eventually(
      () => product.sql(`SELECT id FROM events WHERE id = '${id}'`),
      (rows) => rows.length === 1,
    );

    rmSync(ballast);
    expect(await putFile(product)).toBe(200);
    expect(await product.stop()).toBe(0);
    rmSync(product.dataDir, { recursive: true });
  },
);

/** Uploads a file of one MiB. @returns the status of the registration if it is rejected, otherwise the status of the transfer */
async function putFile(product: Product): Promise<number> {
  const described = { attachmentType: 'other', fileName: 'x', mimeType: 'text/plain' };
  const upload = await product.request('POST', '/v1/ingest/uploads', { body: described });
  if (upload.status !== 201) return upload.status;
  const { pathname, search } = new URL(upload.json().uploadUrl);
  const headers = { 'Content-Type': 'text/plain' };
  return (await product.request('PUT', pathname + search, { headers, body: randomBytes(KIB * KIB) })).status;
}

test.skipIf(lacking !== undefined)(
  'questlog compact does not start with too little free disk space, and prints how much it needs',
  async () => {
    const dataDir = join(disk, 'compacted');
    const file = join(dataDir, 'log', 'questlog.db');
    await makeOldLogFile(join(dataDir, 'log'), 2_000);
    const compact = () => questlogCommand(['compact'], { env: { QUESTLOG_DATA_DIR: dataDir } });
    const ballast = fill({ leaveBytes: 4 * KIB * KIB });
    const before = readFileSync(file);
    const tooLittle = /compacting needs \d+ MiB of free disk, and 4 MiB are free/;
    expect(await compact()).toMatchObject({ code: 1, stderr: expect.stringMatching(tooLittle) });
    expect(readFileSync(file).equals(before)).toBe(true);
    rmSync(ballast);
    expect(await compact()).toMatchObject({ code: 0, stderr: '' });
    expect(readFileSync(file).length).toBeLessThan(before.length);
    rmSync(dataDir, { recursive: true });
  },
);

test.skipIf(lacking !== undefined)(
  'a start on a full disk fails with one clear line',
  { timeout: 120_000 },
  async () => {
    const ballast = fill();
    const dataDir = join(disk, 'new');

    await expect(startProduct({ dataDir })).rejects.toThrow(
      /exited with 1: questlog: cannot start: [^\n]+\n$/,
    );
    rmSync(ballast);
    await (await startProduct({ dataDir })).stop();
  },
);

/** Sends events from eight concurrent clients until at least `REJECTIONS` events have been rejected. */
async function postUntilRejected(product: Product, acknowledged: string[]): Promise<Answer[]> {
  const rejected: Answer[] = [];
  const client = async (): Promise<void> => {
    while (rejected.length < REJECTIONS) {
      const answer = await post(product);
      if (answer.status === 201) acknowledged.push(answer.json()[0].id);
      else rejected.push(answer);
    }
  };
  await Promise.all(Array.from({ length: 8 }, client));
  return rejected;
}

function post(product: Product): Promise<Answer> {
  const text = Array.from({ length: PAYLOAD_BYTES / 8 }, () => Math.random().toString(36).slice(2, 10)).join(
    '',
  );
  const event = { sessionId: product.credentials.sessionId, eventType: 'filler', payload: { text } };
  return product.request('POST', '/v1/ingest/events', { body: event });
}
