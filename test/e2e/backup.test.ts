/**
 * Tests a backup under load, the loss of the machine, and a restore. The restored Questlog must have every event that was
 * acknowledged before the backup. It must have no duplicates and no dangling references.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fillWithTables } from '@questlog/runtime/clickhouse/chdb/testing/migratedFolder';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { aKey, anEvent, aToken, events, eventually, onto, type TestProject } from './builders.ts';
import { bugsIn, type Product, type Reached, type StartOptions, startProduct } from './product.ts';
import { type Ended, questlogCommand, reaching } from './questlogCommand.ts';

const folder = mkdtempSync(join(tmpdir(), 'questlog-backup-'));
const backups = join(folder, 'backups');
const restored = join(folder, 'restored');
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const KEY = aKey();
const BATCH = 20;

/** Sends batches without a pause. Records the ids of the events in the order of the responses. */
class Load {
  readonly ids: string[] = [];
  #isOver = false;
  readonly #loops: Promise<void>[];

  constructor(game: TestProject, of: Record<string, unknown>) {
    this.#loops = [0, 1].map(async () => {
      while (!this.#isOver) {
        const answer = await game.post(events(BATCH, of));
        if (answer.status !== 201) throw new Error(answer.text());
        this.ids.push(...answer.json().map(({ id }: { id: string }) => id));
      }
    });
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#loops);
  }
}

test('a restore has everything answered before the backup exactly once, and continues from there', async () => {
  const dataDir = join(folder, 'first');
  fillWithTables(join(dataDir, 'clickhouse'));
  const first = await start({ dataDir, env: { QUESTLOG_BACKUP_DIR: backups } });
  const game = onto(first.credentials, first);
  const keyed = await game.post(events(3, { sessionId: game.sessionId }), { 'Idempotency-Key': KEY });
  const revoked = await aToken(first, game.projectId);
  await first.admin('DELETE', `/admin/tokens/${revoked.id}`);
  const report = (await game.report({ sessionId: game.sessionId, title: 'it broke' })).json();
  const uploadId = await uploadText(game, 'what the game logged');
  const position = await streamUntil(first, game, '', 3);
  const load = new Load(game, { sessionId: await game.session() });
  await eventually(
    async () => load.ids.length,
    (length) => length > 200,
  );

  const before = [...load.ids, ...idsOf(keyed)];
  const made = await questlogCommand(['backup'], { env: reaching(first, game, folder) });
  const during = load.ids.length;
  await eventually(
    async () => load.ids.length,
    (length) => length > during,
  );
  await load.stop();
  expect([made.code, made.stderr]).toEqual([0, expect.stringMatching(/^\d+ MiB in [\d.]+ s/)]);
  const auditRows = await eventually(
    () => first.sql("SELECT status FROM audit WHERE route = '/admin/backups' AND method = 'POST'"),
    (rows) => rows.some(({ status }) => status !== null),
  );
  expect(auditRows).toEqual([{ status: 202 }]);
  await first.kill();

  expect(await restore(made.stdout.trim())).toMatchObject({ code: 0 });
  const compact = () => questlogCommand(['compact'], { env: { QUESTLOG_DATA_DIR: restored } });
  const compacted = { code: 0, stdout: expect.stringMatching(/\d+ MiB before, \d+ MiB now\n$/), stderr: '' };
  expect(await compact()).toEqual(compacted);
  const product = await start({ dataDir: restored });
  expect(await compact()).toMatchObject({ code: 1, stderr: expect.stringContaining('another process') });
  const again = onto(game, product);
  const stored = await eventually(
    async () => (await product.sql<{ id: string }>('SELECT id FROM events')).map(({ id }) => id),
    (ids) => before.every((id) => ids.includes(id)),
  );
  expect(new Set(stored).size).toBe(stored.length);
  const answered = new Set([...load.ids, ...idsOf(keyed)]);
  expect(stored.filter((id) => !answered.has(id))).toEqual([]);

  const replayed = await again.post(events(3, { sessionId: game.sessionId }), { 'Idempotency-Key': KEY });
  expect([replayed.status, idsOf(replayed)]).toEqual([200, idsOf(keyed)]);
  expect((await again.get('/v1/quota')).json().used).toBe(await countEvents(product));
  expect(
    (await product.request('GET', '/v1/quota', { headers: { Authorization: `Bearer ${revoked.token}` } }))
      .status,
  ).toBe(401);
  expect((await again.get(`/v1/uploads/${uploadId}`)).text()).toBe('what the game logged');

  // Gives the event the time of the report. The event is then in the window of the report, independent of the duration of the
  // restore.
  const { id: reportId, occurredAt } = report;
  const [fresh] = idsOf(await again.post(anEvent({ sessionId: game.sessionId, occurredAt })));
  const { events: trail } = (await again.get(`/v1/reports/${reportId}/events`)).json();
  expect(trail.map(({ id }: { id: string }) => id).sort()).toEqual([...idsOf(keyed), fresh].sort());
  // A `Last-Event-ID` from before the backup must not skip later links.
  await streamUntil(product, again, position, 4);

  const verified = await questlogCommand(['verify', '--from', '1h', '--json'], {
    env: reaching(product, again, folder),
  });
  expect(verified).toMatchObject({ code: 0, stdout: expect.stringContaining('"differences":0') });
  expect(await product.sql('SELECT * FROM truncations')).toEqual([]);
  expect(bugsIn(first.stderr() + product.stderr())).toEqual([]);
});

async function start(options: StartOptions): Promise<Product> {
  const product = await startProduct(options);
  onTestFinished(() => product.kill());
  return product;
}

function restore(from: string): Promise<Ended> {
  return questlogCommand(['restore', from], { env: { QUESTLOG_DATA_DIR: restored } });
}

function idsOf(answer: { json(): unknown }): string[] {
  const created = answer.json();
  return (Array.isArray(created) ? created : [created]).map(({ id }) => id);
}

async function countEvents(product: Reached & { sql: Product['sql'] }): Promise<number> {
  const [row] = await product.sql<{ n: string }>('SELECT count() AS n FROM events');
  return Number(row?.n);
}

async function uploadText(game: TestProject, text: string): Promise<string> {
  const about = { fileName: 'game.log', mimeType: 'text/plain', sizeBytes: text.length };
  const body = { ...about, attachmentType: 'log_bundle', sessionId: game.sessionId };
  const { uploadId, uploadUrl } = (await game.request('POST', '/v1/ingest/uploads', { body })).json();
  const put = await fetch(uploadUrl, {
    method: 'PUT',
    headers: { 'Content-Type': 'text/plain' },
    body: text,
  });
  expect(put.status).toBe(200);
  return uploadId;
}

/** Reads linked events after `position` until `links` different links have arrived. @returns the id of the last message */
async function streamUntil(
  product: Product,
  game: TestProject,
  position: string,
  links: number,
): Promise<string> {
  const abort = new AbortController();
  const headers = {
    Authorization: `Bearer ${game.token}`,
    ...(position !== '' && { 'Last-Event-ID': position }),
  };
  const url = `${product.credentials.baseUrl}/v1/linked-events`;
  const { body } = await fetch(url, { headers, signal: abort.signal });
  let text = '';
  for await (const piece of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += piece;
    const linkIds = new Set([...text.matchAll(/"linkId":"([^"]+)"/g)].map(([, id]) => id));
    if (linkIds.size >= links) break;
  }
  abort.abort();
  return [...text.matchAll(/^id: (\S+)$/gm)].at(-1)?.[1] ?? '';
}
