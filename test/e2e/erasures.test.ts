/** Tests that an erasure removes data from every place permanently and leaves all other data unchanged. */
import { randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { keysIn } from '@questlog/runtime/uploads/bucket.testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { aKey, anEvent, aProject, events, eventually, type TestProject } from './builders.ts';
import { clusterEngines } from './cluster.ts';
import * as erasing from './erasing.ts';
import { bugsIn, type Product, removeDataDir, startProduct } from './product.ts';

const SECRET = 'zq-secret-of-the-player';
let product: Product;

beforeAll(async () => {
  product = await startProduct();
  await erasing.shortenPartLifetime(product);
});

afterAll(async () => {
  await product.stop();
  expect(bugsIn(product.stderr())).toEqual([]);
  await removeDataDir(product);
});

/** Uploads a file in a session of the player. @returns the registration of the upload */
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

/** Returns the names of the files of an upload in the folder or bucket for uploads. */
async function filesOf(uploadId: string): Promise<string[]> {
  const bucket = clusterEngines()?.s3;
  const paths =
    bucket === undefined
      ? readdirSync(join(product.dataDir, 'uploads'), { recursive: true, encoding: 'utf8' })
      : await keysIn(bucket);
  return paths.map((path) => basename(path)).filter((name) => name.includes(uploadId));
}

async function quotaOf(game: TestProject): Promise<number> {
  return (await game.get('/v1/quota')).json().used;
}

/** Waits until ClickHouse has all data that was sent, including the links. */
async function waitUntilProjected(game: TestProject, reportId: string, links: number): Promise<void> {
  await eventually(
    () => product.sql(`SELECT 1 FROM report_links WHERE report_id = '${reportId}' AND state = 'linked'`),
    ({ length }) => length === links,
  );
  expect((await game.get(`/v1/reports/${reportId}`)).status).toBe(200);
}

// Runs the tests concurrently. Most of the duration of an erasure is the wait until ClickHouse removes parts.
test.concurrent('an erasure finds a player’s session in the log if an earlier version deleted its row', async () => {
  const game = await aProject(product, { revision: 'A' });
  const { tenantId, projectId } = game;
  const session = await game.session({ player: { externalId: 'night-owl' } });
  expect((await game.post(events(7, { sessionId: session }))).status).toBe(201);
  const { id: reportId } = (await game.report({ sessionId: session, title: SECRET })).json();
  await waitUntilProjected(game, reportId, 7);
  const ofSession = `sessions WHERE project_id = '${projectId}' AND id = '${session}'`;
  await eventually(
    () => product.sql(`SELECT 1 FROM ${ofSession}`),
    ({ length }) => length === 1,
  );
  await erasing.change(product, `DELETE FROM ${ofSession} SETTINGS lightweight_deletes_sync = 0`);
  await eventually(
    () => product.sql(`SELECT 1 FROM ${ofSession}`),
    ({ length }) => length === 0,
  );
  await erasing.change(
    product,
    `INSERT INTO retention_marks (project_id, what, expired_before, is_done) VALUES ('${projectId}', 'sessions', now() + 60, 1)`,
  );

  const request = { tenantId, projectId, player: { externalId: 'night-owl' } };
  const receipt = await erasing.waitUntilDone(product, await erasing.erase(product, request));

  expect(receipt.found).toMatchObject({ events: 7, links: 7, reports: 1 });
  expect(await erasing.countsOf(product, game)).toEqual([0, 1, 0, 0]);
});

test.concurrent('a player’s erasure removes rows, links, reports, and files, and a late retry does not restore them', async () => {
  const game = await aProject(product, { revision: 'A', monthlySoftQuota: 1_000 });
  const other = await aProject(product);
  const session = await game.session({ player: { externalId: 'kim' } });
  const key = aKey();
  const body = events(5, { sessionId: session, payload: { text: SECRET } });
  expect((await game.post(body, { 'Idempotency-Key': key })).status).toBe(201);
  // Sends events of both sessions in one request.
  const mixed = [anEvent({ sessionId: session }), anEvent({ sessionId: game.sessionId })];
  const [erased, kept] = (await game.post(mixed)).json();
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
  await waitUntilProjected(game, reportId, 6);
  await erasing.waitForRows(product, game, 1, 'report_versions');
  await other.post(events(3, { sessionId: other.sessionId }));
  await erasing.waitForRows(product, other, 3);
  await erasing.waitForRows(product, other, 1, 'sessions');
  const [others, used] = [await erasing.checksumOf(product, other), await quotaOf(game)];
  expect(used).toBe(7);
  expect(await Promise.all([upload, unnamed].map(({ uploadId }) => filesOf(uploadId)))).toEqual([
    expect.arrayContaining([upload.uploadId]),
    expect.arrayContaining([unnamed.uploadId]),
  ]);

  const { tenantId, projectId } = game;
  const receipt = await erasing.waitUntilDone(
    product,
    await erasing.erase(product, { tenantId, projectId, player: { externalId: 'kim' } }),
  );
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
  // The log keeps dead letters for 30 days. On Kafka, the segment with a dead letter can exist for 7 more days.
  const days = (Date.parse(receipt.logExpiresAt) - Date.now()) / (24 * 3_600_000);
  expect(days).toBeCloseTo(clusterEngines() === undefined ? 30 : 30 + 7, 1);

  // Counts deleted rows that only a mask hides, and parts that were replaced before the last row was hidden. Both numbers must be
  // 0.
  const masked = `SELECT count() FROM events WHERE session_id = '${session}' SETTINGS apply_deleted_mask = 0`;
  const replaced = `SELECT count() FROM system.parts WHERE database = currentDatabase() AND table = 'events' AND NOT active
      AND remove_time < toDateTime(${Math.floor(Date.parse(receipt.hiddenAt) / 1_000)})`;
  expect([await erasing.change(product, masked), await erasing.change(product, replaced)]).toEqual([
    '0\n',
    '0\n',
  ]);
  expect([await filesOf(upload.uploadId), await filesOf(unnamed.uploadId)]).toEqual([[], []]);
  expect(await erasing.countsOf(product, game)).toEqual([1, 1, 0, 0]);
  expect((await game.get(`/v1/events/${erased.id}`)).status).toBe(404);
  expect((await game.get(`/v1/events/${kept.id}`)).status).toBe(200);
  expect((await game.get(`/v1/reports/${reportId}`)).status).toBe(404);
  expect((await game.get(`/v1/sessions/${session}`)).status).toBe(404);
  expect([await erasing.checksumOf(product, other), await quotaOf(game)]).toEqual([others, used]);
  await erasing.expectVerified(product);

  // An erased session must be rejected like an unknown session. Otherwise, Questlog would accept events and then delete them.
  expect((await game.post(body, { 'Idempotency-Key': key })).status).toBe(404);
  expect((await game.request('POST', '/v1/ingest/sessions', { body: { id: session } })).status).toBe(409);
  // A session that the player starts after the erasure is not erased.
  const next = await game.session({ player: { externalId: 'kim' } });
  await game.post(anEvent({ sessionId: next }));
  await erasing.waitForRows(product, game, 2);
});

test.concurrent('a device and a session are erased without changes to other sessions', async () => {
  const game = await aProject(product);
  const { tenantId, projectId } = game;
  const ofDevice = await game.session({ player: { deviceId: 'd-1' } });
  const ofOther = await game.session({ player: { deviceId: 'd-2' } });
  for (const sessionId of [ofDevice, ofDevice, ofOther, game.sessionId])
    await game.post(anEvent({ sessionId }));
  await erasing.waitForRows(product, game, 4);
  await erasing.waitForRows(product, game, 3, 'sessions');
  const erase = async (of: object) =>
    await erasing.waitUntilDone(product, await erasing.erase(product, { tenantId, projectId, ...of }));
  const [device, session] = await Promise.all([
    erase({ player: { deviceId: 'd-1' } }),
    erase({ sessionId: ofOther }),
  ]);

  expect(device.found).toMatchObject({ events: 2, sessions: 1 });
  expect(session.found).toMatchObject({ events: 1, sessions: 1 });
  expect(await erasing.countsOf(product, game)).toEqual([1, 1, 0, 0]);
  expect((await game.get(`/v1/sessions/${game.sessionId}`)).status).toBe(200);
});

test.concurrent('a tenant’s erasure also removes the dead letters that could be replayed', async () => {
  const game = await aProject(product);
  await erasing.change(product, "ALTER TABLE events ADD CONSTRAINT no_poison CHECK event_type != 'poison'");
  await game.post(anEvent({ sessionId: game.sessionId, eventType: 'poison' }));
  await game.post(anEvent({ sessionId: game.sessionId }));
  const open = async () => (await product.admin('GET', '/admin/dead-letters')).json().open;
  await eventually(open, (n) => n === 1);
  const [deadLetter] = (await product.admin('GET', '/admin/dead-letters')).json().deadLetters;
  const deadLetterStatus = async () =>
    (await product.admin('GET', `/admin/dead-letters/${deadLetter.id}`)).status;
  expect(await deadLetterStatus()).toBe(200);
  await erasing.waitForRows(product, game, 1);
  await erasing.waitForRows(product, game, 1, 'sessions');
  await erasing.change(product, 'ALTER TABLE events DROP CONSTRAINT no_poison');
  const receipt = await erasing.waitUntilDone(
    product,
    await erasing.erase(product, { tenantId: game.tenantId }),
  );
  expect(receipt.found).toMatchObject({ events: 1, sessions: 1, deadLetters: 1 });
  expect([await open(), await erasing.countsOf(product, game)]).toEqual([0, [0, 0, 0, 0]]);
  expect(await deadLetterStatus()).toBe(404);
});

test.concurrent('data that is sent again during the erasure of its project is kept', async () => {
  const game = await aProject(product);
  const { tenantId, projectId } = game;
  const player = { externalId: 'back' };
  const report = { clientRequestId: randomUUID(), report: { title: 'it' } };
  const ids = await Promise.all(Array.from({ length: 10 }, () => game.session({ player })));
  const { id: reportId } = (await game.report(report)).json();
  await erasing.waitForRows(product, game, 11, 'sessions');
  await erasing.waitForRows(product, game, 1, 'report_versions');

  const erasure = await erasing.erase(product, { tenantId, projectId });
  // Retries after a 503, as a client does.
  const statusOf = async (path: string, body: object) =>
    (
      await eventually(
        () => game.request('POST', path, { body }),
        ({ status }) => status !== 503,
        60_000,
      )
    ).status;
  const again = async (id: string) => [
    await statusOf('/v1/ingest/sessions', { id, player }),
    await statusOf('/v1/ingest/events', anEvent({ sessionId: id })),
  ];
  const sent = await Promise.all([statusOf('/v1/ingest/reports', report), ...ids.map(again)]);
  expect(sent).toEqual([201, ...ids.map(() => [201, 201])]);
  await erasing.waitUntilDone(product, erasure);

  await erasing.waitForRows(product, game, ids.length);
  const statuses = await Promise.all(ids.map(async (id) => (await game.get(`/v1/sessions/${id}`)).status));
  expect(statuses).toEqual(ids.map(() => 200));
  expect((await game.get(`/v1/reports/${reportId}`)).status).toBe(200);
  const ofPlayer = await erasing.erase(product, { tenantId, projectId, player });
  expect((await erasing.waitUntilDone(product, ofPlayer)).found).toMatchObject({ events: 10, sessions: 10 });
});

test('an invalid erasure is rejected before anything is written', async () => {
  const game = await aProject(product);
  const other = await aProject(product);
  const post = async (body: object) => {
    const answer = await product.admin('POST', erasing.ERASURES, body);
    return [answer.status, answer.json().detail];
  };
  const before = (await product.admin('GET', erasing.ERASURES)).json().length;
  const { tenantId, projectId, sessionId } = game;
  expect(await post({ tenantId, projectId: other.projectId })).toEqual([
    404,
    expect.stringContaining('has no project'),
  ]);
  expect(await post({ tenantId, sessionID: sessionId })).toEqual([400, expect.any(String)]);
  expect(await post({ tenantId, player: {} })).toEqual([400, expect.any(String)]);
  const both = { tenantId, sessionId, player: { externalId: 'kim' } };
  expect(await post(both)).toEqual([400, expect.stringContaining('not both')]);
  expect(await post({ tenantId: projectId })).toEqual([404, expect.stringContaining('no tenant')]);
  expect((await product.admin('GET', `${erasing.ERASURES}/${projectId}`)).status).toBe(404);
  expect((await product.admin('GET', erasing.ERASURES)).json()).toHaveLength(before);
});
