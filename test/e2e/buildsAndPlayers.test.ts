/** What a session says of its build, its player and itself: answered, projected, and passed on to its events. */
import { buildIdOf } from '@questlog/schemas/buildId';
import { beforeAll, describe, expect, test } from 'vitest';
import { aKey, anEvent, anUnknownId, type TestProject } from './builders.ts';
import { sharedProduct } from './sharedProduct.ts';

const shared = sharedProduct();
let game: TestProject;

beforeAll(async () => {
  game = await shared.aProject({ revision: 'A' });
});

const BUILD = { version: '1.4.2', platform: 'Web', gitCommit: '5d0c1f7e9a2b', channel: 'dev' };
/** As the Godot plugin sends it. */
const METADATA =
  '{"currentScene":"Arena","engineVersion":"4.6-stable (official)","gameName":"Arena","locale":"","startedAt":"2026-11-22T03:23:56"}';
const FROM_THE_PLUGIN = `{"build":{"channel":"dev","gitCommit":"5d0c1f7e9a2b","platform":"Web","version":"1.4.2"},"metadata":${METADATA},"player":{"deviceId":""}}`;

describe.concurrent('a session with a build', () => {
  test('as the Godot plugin sends it is a 201, and is there as it was sent', async () => {
    const answer = await register(FROM_THE_PLUGIN);
    const { id, sessionId, buildId, startedAt } = answer.json();

    expect(answer.status).toBe(201);
    expect(id).toBe(sessionId);
    expect(buildId).toBe(buildIdOf(game.projectId, BUILD));
    const read = await game.get(`/v1/sessions/${id}`);
    expect(read.json()).toEqual({
      ...{ sessionId, id, buildId, startedAt },
      build: BUILD,
      player: null,
      metadata: JSON.parse(METADATA),
    });
    expect(read.text()).toContain(`"metadata":${METADATA}}`);
    const [row] = await shared.product.sql(
      `SELECT build_id, version, platform, git_commit, channel, player_device_id, metadata FROM sessions WHERE id = '${id}'`,
    );
    expect(row).toEqual({
      ...{ build_id: buildId, version: '1.4.2', platform: 'Web', git_commit: '5d0c1f7e9a2b', channel: 'dev' },
      player_device_id: null,
      metadata: METADATA,
    });
  });

  test('gives its build to its events, also to a report’s, unless they name one', async () => {
    const { id: sessionId, buildId } = (await register({ build: BUILD })).json();
    const named = anUnknownId();
    const key = { 'Idempotency-Key': aKey() };
    const batch = [anEvent({ sessionId }), anEvent({ sessionId, buildId: named })];
    const answer = await game.post(batch, key);
    const again = await game.post(batch, key);
    const report = await game.report({ sessionId, events: [anEvent({ sessionId })] });

    expect(buildsOf(answer.json())).toEqual([buildId, named]);
    expect([again.status, again.text()]).toEqual([200, answer.text()]);
    expect(buildsOf(report.json().events)).toEqual([buildId]);
    const page = await game.get(`/v1/sessions/${sessionId}/events`);
    expect(buildsOf(page.json().events).toSorted()).toEqual([buildId, buildId, named].toSorted());
  });

  test('the same id again is a 200 where all of it is the same, and a 409 where anything differs', async () => {
    const given = { id: anUnknownId(), build: BUILD, player: { externalId: 'p' }, metadata: { n: 1 } };
    const text = JSON.stringify(given);
    const first = await register(text);
    const others = [
      { ...given, build: { ...BUILD, version: '1.4.3' } },
      { ...given, build: undefined, buildId: first.json().buildId },
      { ...given, player: { externalId: 'q' } },
      { ...given, player: { externalId: 'p', deviceId: 'd' } },
      { ...given, metadata: undefined },
    ].map((other) => JSON.stringify(other));
    const statuses = async (): Promise<number[]> =>
      await Promise.all(
        [text, ...others, text.replace('"n":1', '"n":1.0')].map(
          async (body) => (await register(body)).status,
        ),
      );

    expect(await statuses()).toEqual([200, 409, 409, 409, 409, 409, 409]);
    await game.get(`/v1/sessions/${given.id}`);
    expect(await statuses()).toEqual([200, 409, 409, 409, 409, 409, 409]);
  });
});

function register(body: unknown) {
  return game.request('POST', '/v1/ingest/sessions', { body });
}

function buildsOf(events: readonly { buildId: string | null }[]): (string | null)[] {
  return events.map(({ buildId }) => buildId);
}
