/** Tests that a game with the published Godot plugin needs only a `base_url` and a token. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import type { TestProject } from './builders.ts';
import { clusterEngines } from './cluster.ts';
import { asQueued, CONTEXT, PluginGame, type Send } from './pluginGame.ts';
import { send } from './product.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();

/** Origins of the addresses to which files were uploaded. */
const putTo: string[] = [];

const overHttp: Send = async (method, path, headers, body) => {
  if (method === 'PUT') putTo.push(new URL(path).origin);
  const url = path.startsWith('http') ? path : shared.product.credentials.baseUrl + path;
  return await send(url, method, '', { headers, body });
};

/** Sends a request and closes the connection when the response starts, so that the game does not get the response. */
async function unheard(project: TestProject, path: string, body: string): Promise<void> {
  const { hostname, port } = new URL(shared.product.credentials.baseUrl);
  const socket = connect(Number(port), hostname);
  const length = Buffer.byteLength(body);
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${project.token}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${length}\r\nConnection: close\r\n\r\n${body}`,
  );
  await once(socket, 'data');
  socket.destroy();
}

test('stores a session, events, a file, and reports once despite retries', async () => {
  const project = await shared.aProject({ revision: 'B' });
  const game = new PluginGame(overHttp, project.token);
  expect((await game.startSession())?.status).toBe(201);
  const oldSession = game.sessionId;
  expect((await game.logEvents(3))?.status).toBe(201);
  const bytes = randomBytes(3223);
  const file = await game.upload(bytes);
  expect(file).toBeDefined();
  // On Kafka, the game uploads files directly to a bucket.
  expect(putTo).toEqual([clusterEngines()?.s3?.endpoint ?? shared.product.credentials.baseUrl]);

  const body = game.aReport('Player stuck in wall', file);
  const first = await game.report(body);
  const again = await game.report(asQueued(body));
  expect([first?.status, again?.status, again?.json().idempotent]).toEqual([201, 200, true]);
  const [id, sameId] = game.reportIds;
  expect(sameId).toBe(id);

  const lost = game.aReport('answer lost');
  await unheard(project, '/v1/ingest/reports', lost);
  expect((await game.report(asQueued(lost)))?.status).toBe(200);

  const queued = game.aReport('offline');
  game.queue.push({ body: asQueued(queued), tries: 1 });
  expect((await game.relaunch())?.status).toBe(201);
  expect(game.queue).toEqual([]);
  expect(game.sessionId).not.toBe(oldSession);

  const shown = (await project.get(`/v1/reports/${id}`)).json();
  expect(shown).toMatchObject({
    ...{ sessionId: oldSession, report: { title: 'Player stuck in wall', severity: 'high' } },
    attachments: [{ fileName: 'game.log', sizeBytes: 3223, state: 'stored' }],
  });
  expect(shown.links.map(({ state }: { state: string }) => state)).toEqual(['linked', 'linked', 'linked']);
  const { uploadId } = shown.attachments[0];
  expect((await project.get(`/v1/uploads/${uploadId}`)).bytes.equals(bytes)).toBe(true);
  await Promise.all(game.reportIds.map((reportId) => project.get(`/v1/reports/${reportId}`)));
  await project.get(`/v1/sessions/${game.sessionId}`);

  const own = `project_id = '${project.projectId}'`;
  expect(
    await shared.product.sql(
      `SELECT title, session_id, context FROM reports WHERE ${own} ORDER BY received_at, title`,
    ),
  ).toEqual(
    ['Player stuck in wall', 'answer lost', 'offline'].map((title) => {
      // Expects floats in the report that was queued on disk, because the plugin reads all numbers of its queue as floats.
      return { title, session_id: oldSession, context: title === 'offline' ? asQueued(CONTEXT) : CONTEXT };
    }),
  );
  const counts = `SELECT (SELECT count() FROM sessions WHERE ${own} AND platform = 'Web' AND version = '1.4.2') AS sessions,
    (SELECT uniqExact(build_id) FROM events WHERE ${own}) AS builds, (SELECT count() FROM events WHERE ${own}) AS events`;
  // Expects two sessions of the game, because the game was launched twice.
  expect(await shared.product.sql(counts)).toEqual([{ sessions: 2, builds: 1, events: 3 }]);
});
