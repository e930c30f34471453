/** What operators have erased is gone from every place, stays gone, and nobody else misses anything. */
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase } from '@questlog/runtime/log/embedded/database';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { aKey, anEvent, aProject, events, eventually, onto, type TestProject } from './builders.ts';
import { bugsIn, type Product, removeDataDir, startProduct } from './product.ts';
import { questlogCommand, reaching } from './questlogCommand.ts';

const ERASURES = '/admin/erasures';
const TABLES = ['events', 'sessions', 'report_versions', 'report_link_versions'];
/** With two starts of the product. */
const LONG_MS = 180_000;
const SECRET = 'zq-secret-of-the-player';
let product: Product;

beforeAll(async () => {
  product = await startProduct();
  await keepOldPartsShortly();
});

afterAll(async () => {
  await product.stop();
  expect(bugsIn(product.stderr())).toEqual([]);
  await removeDataDir(product);
});

/** ClickHouse keeps replaced parts for minutes; where an operator has set less, an erasure leaves it so. */
async function keepOldPartsShortly(): Promise<void> {
  for (const table of TABLES) await change(`ALTER TABLE ${table} MODIFY SETTING old_parts_lifetime = 1`);
}

/** As whoever may change tables. */
async function change(sql: string): Promise<string> {
  const { url, database, username, password } = product.credentials.clickhouse;
  const headers = { 'X-ClickHouse-User': username, 'X-ClickHouse-Key': password };
  const answer = await fetch(`${url}/?database=${database}`, { method: 'POST', headers, body: sql });
  const text = await answer.text();
  expect([answer.status, text]).toEqual([200, expect.any(String)]);
  return text;
}

async function erase(body: object): Promise<string> {
  const answer = await product.admin('POST', ERASURES, body);
  expect(answer.status, answer.text()).toBe(202);
  return answer.json().id;
}

async function done(id: string) {
  const look = async () => (await product.admin('GET', `${ERASURES}/${id}`)).json();
  const erasure = await eventually(look, ({ state }) => state === 'done' || state === 'failed', 120_000);
  expect(erasure).toMatchObject({ state: 'done', problem: null });
  return erasure.receipt;
}

/** Every row of a project, to the bit. */
async function checksumOf({ projectId }: TestProject): Promise<unknown> {
  const sums = TABLES.map(
    (table) =>
      `(SELECT (count(), sum(cityHash64(*))) FROM ${table} WHERE project_id = '${projectId}') AS of_${table}`,
  );
  return await product.sql(`SELECT ${sums.join(', ')}`);
}

async function countsOf({ projectId }: TestProject): Promise<number[]> {
  const counts = TABLES.map(
    (table) => `(SELECT count() FROM ${table} WHERE project_id = '${projectId}') AS of_${table}`,
  );
  const [row = {}] = await product.sql(`SELECT ${counts.join(', ')}`);
  return TABLES.map((table) => Number(row[`of_${table}`]));
}

async function storedEvents({ projectId }: TestProject, more = ''): Promise<number> {
  const [row] = await product.sql<{ n: string }>(
    `SELECT count() AS n FROM events WHERE project_id = '${projectId}' ${more}`,
  );
  return Number(row?.n);
}

/** A file of the player's, as a report names it. */
async function anUpload(game: TestProject, sessionId: string): Promise<{ uploadId: string }> {
  const body = {
    ...{ attachmentType: 'log_bundle', fileName: 'game.log', mimeType: 'text/plain', sessionId },
    sizeBytes: SECRET.length,
  };
  const upload = (await game.request('POST', '/v1/ingest/uploads', { body })).json();
  const put = await fetch(upload.uploadUrl, { method: 'PUT', headers: upload.requiredHeaders, body: SECRET });
  expect(put.status).toBe(200);
  return upload;
}

function filesOf(folder: string, name: string): string[] {
  const found = readdirSync(join(product.dataDir, folder), { recursive: true, withFileTypes: true });
  return found.filter((file) => file.name.includes(name)).map((file) => file.name);
}

async function quotaOf(game: TestProject): Promise<number> {
  return (await game.get('/v1/quota')).json().used;
}

/** So that every block of what was sent is in ClickHouse, links too. */
async function settled(game: TestProject, reportId: string, links: number): Promise<void> {
  await eventually(
    () => product.sql(`SELECT 1 FROM report_links WHERE report_id = '${reportId}' AND state = 'linked'`),
    ({ length }) => length === links,
  );
  expect((await game.get(`/v1/reports/${reportId}`)).status).toBe(200);
}

async function verified(): Promise<void> {
  const { projectId, token } = { projectId: '', token: product.credentials.token };
  const env = reaching(product, { projectId, token } as never, product.dataDir);
  const { code, stdout, stderr } = await questlogCommand(['verify', '--from', '30m'], { env });
  expect({ code, stdout, stderr }).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('nothing differs'),
  });
}

test(
  'a player is erased: rows, links, reports and files are gone, and neither a retry nor a new projection brings them back',
  async () => {
    const game = await aProject(product, { revision: 'A', monthlySoftQuota: 1_000 });
    const other = await aProject(product);
    const session = await game.session({ player: { externalId: 'kim' } });
    const key = aKey();
    const body = events(5, { sessionId: session, payload: { text: SECRET } });
    expect((await game.post(body, { 'Idempotency-Key': key })).status).toBe(201);
    // One request brings events of both.
    const mixed = [anEvent({ sessionId: session }), anEvent({ sessionId: game.sessionId })];
    const [gone, stays] = (await game.post(mixed)).json();
    const upload = await anUpload(game, session);
    const unnamed = await anUpload(game, session);
    const attachment = {
      attachmentType: 'log_bundle',
      uploadId: upload.uploadId,
      fileName: 'game.log',
      mimeType: 'text/plain',
    };
    const report = { sessionId: session, title: SECRET, attachments: [attachment] };
    const { id: reportId } = (await game.report(report)).json();
    await settled(game, reportId, 6);
    await other.post(events(3, { sessionId: other.sessionId }));
    await eventually(
      () => storedEvents(other),
      (n) => n === 3,
    );
    const [others, used] = [await checksumOf(other), await quotaOf(game)];
    expect(used).toBe(7);
    expect([filesOf('uploads', upload.uploadId), filesOf('uploads', unnamed.uploadId)]).toEqual([
      expect.arrayContaining([upload.uploadId]),
      expect.arrayContaining([unnamed.uploadId]),
    ]);

    const { tenantId, projectId } = game;
    const receipt = await done(await erase({ tenantId, projectId, player: { externalId: 'kim' } }));
    expect(receipt.asked).toMatchObject({
      tenantId,
      projectId,
      player: { externalId: 'kim' },
      sessionId: null,
    });
    expect(receipt.found).toEqual({
      ...{ events: 6, links: 6, reports: 1, attachments: 2, sessions: 1 },
      ...{ deadLetters: 0, linkedEvents: 6, log: 4 },
    });
    expect(Date.parse(receipt.goneFromDiskAt)).toBeGreaterThanOrEqual(Date.parse(receipt.hiddenAt));
    expect(Date.parse(receipt.logExpiresAt) - Date.now()).toBeGreaterThan(29 * 24 * 3_600_000);

    const areGone = async (): Promise<void> => {
      expect(await countsOf(game)).toEqual([1, 1, 0, 0]);
      expect((await game.get(`/v1/events/${gone.id}`)).status).toBe(404);
      expect((await game.get(`/v1/events/${stays.id}`)).status).toBe(200);
      expect((await game.get(`/v1/reports/${reportId}`)).status).toBe(404);
      expect((await game.get(`/v1/sessions/${session}`)).status).toBe(404);
      expect([await checksumOf(other), await quotaOf(game)]).toEqual([others, used]);
      await verified();
    };
    // Without the mask that hides rows, and with the parts that were replaced.
    const masked = `SELECT count() FROM events WHERE session_id = '${session}' SETTINGS apply_deleted_mask = 0`;
    expect(await change(masked)).toBe('0\n');
    const replaced = "SELECT count() FROM system.parts WHERE table = 'events' AND NOT active";
    await eventually(
      () => change(replaced),
      (text) => text === '0\n',
    );
    expect(filesOf('uploads', upload.uploadId)).toEqual([]);
    expect(filesOf('uploads', unnamed.uploadId)).toEqual([]);
    await areGone();

    // An erased session is unknown, as one that never was: nothing is taken for it that would then vanish.
    expect((await game.post(body, { 'Idempotency-Key': key })).status).toBe(404);
    expect((await game.request('POST', '/v1/ingest/sessions', { body: { id: session } })).status).toBe(409);
    // What the player plays now is new.
    const next = await game.session({ player: { externalId: 'kim' } });
    await game.post(anEvent({ sessionId: next }));
    await eventually(
      () => storedEvents(game, `AND session_id = '${next}'`),
      (n) => n === 1,
    );
    await reprojected();
    expect(await storedEvents(game, `AND session_id = '${session}'`)).toBe(0);
    expect(await storedEvents(game)).toBe(2);
    expect(await countsOf(game)).toEqual([2, 2, 0, 0]);
    expect((await onto(game, product).get(`/v1/reports/${reportId}`)).status).toBe(404);
    expect(await quotaOf(onto(game, product))).toBe(used + 1);
    await verified();
  },
  LONG_MS,
);

/** ClickHouse is lost, and made anew from the log. */
async function reprojected(): Promise<void> {
  expect(await product.stop()).toBe(0);
  const { dataDir } = product;
  rmSync(join(dataDir, 'clickhouse'), { recursive: true });
  const log = openDatabase(join(dataDir, 'log'));
  log.sqlite.exec(`DELETE FROM commits WHERE consumer_group LIKE 'questlog-project-%'`);
  log.close();
  product = await startProduct({ dataDir });
  await keepOldPartsShortly();
  await eventually(
    async () => (await product.admin('GET', '/admin/lag')).json(),
    ({ consumers }) => consumers.every(({ lagRecords }: { lagRecords: number }) => lagRecords === 0),
    30_000,
  );
}

test(
  'a project is erased up to the request, by a process that is killed on the way and started again',
  async () => {
    const game = await aProject(product);
    const beside = await aProject(product, { tenantId: game.tenantId });
    for (const one of [game, beside]) {
      await one.post(events(20, { sessionId: one.sessionId }));
      await eventually(
        () => storedEvents(one),
        (n) => n === 20,
      );
    }
    const others = await checksumOf(beside);
    const { tenantId, projectId } = game;
    const id = await erase({ tenantId, projectId });
    await product.kill();
    product = await startProduct({ dataDir: product.dataDir });
    const receipt = await done(id);
    expect(receipt.found).toMatchObject({ events: 20, sessions: 1, reports: 0 });
    expect(await countsOf(game)).toEqual([0, 0, 0, 0]);
    expect(await checksumOf(beside)).toEqual(others);
    const again = onto(game, product);
    const next = await again.session();
    await again.post(anEvent({ sessionId: next }));
    await eventually(
      () => storedEvents(game),
      (n) => n === 1,
    );
    const listed = (await product.admin('GET', ERASURES)).json();
    expect(listed[0]).toMatchObject({ id, state: 'done' });
    await verified();
  },
  LONG_MS,
);

test(
  'a whole tenant is erased, with the dead letters that could be replayed',
  async () => {
    const game = await aProject(product);
    await change("ALTER TABLE events ADD CONSTRAINT no_poison CHECK event_type != 'poison'");
    await game.post(anEvent({ sessionId: game.sessionId, eventType: 'poison' }));
    await game.post(anEvent({ sessionId: game.sessionId }));
    const open = async () => (await product.admin('GET', '/admin/dead-letters')).json().open;
    await eventually(open, (n) => n === 1);
    await eventually(
      () => storedEvents(game),
      (n) => n === 1,
    );
    await change('ALTER TABLE events DROP CONSTRAINT no_poison');
    const receipt = await done(await erase({ tenantId: game.tenantId }));
    expect(receipt.found).toMatchObject({ events: 1, sessions: 1, deadLetters: 1 });
    expect([await open(), await countsOf(game)]).toEqual([0, [0, 0, 0, 0]]);
  },
  LONG_MS,
);

test('what cannot be erased is refused before anything is written', async () => {
  const game = await aProject(product);
  const other = await aProject(product);
  const asked = async (body: object) => {
    const answer = await product.admin('POST', ERASURES, body);
    return [answer.status, answer.json().detail];
  };
  const before = (await product.admin('GET', ERASURES)).json().length;
  const { tenantId, projectId, sessionId } = game;
  expect(await asked({ tenantId, projectId: other.projectId })).toEqual([
    404,
    expect.stringContaining('has no project'),
  ]);
  expect(await asked({ tenantId, sessionID: sessionId })).toEqual([400, expect.any(String)]);
  expect(await asked({ tenantId, player: {} })).toEqual([400, expect.any(String)]);
  const both = { tenantId, sessionId, player: { externalId: 'kim' } };
  expect(await asked(both)).toEqual([400, expect.stringContaining('not both')]);
  expect(await asked({ tenantId: projectId })).toEqual([404, expect.stringContaining('no tenant')]);
  expect((await product.admin('GET', `${ERASURES}/${projectId}`)).status).toBe(404);
  expect((await product.admin('GET', ERASURES)).json()).toHaveLength(before);
});
