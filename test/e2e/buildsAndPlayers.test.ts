/**
 * Tests the build, the player, and the metadata of a session. Reads return them, ClickHouse stores them, and events get the
 * build of their session.
 */
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
/** Metadata with the exact bytes that the Godot plugin sends. */
const METADATA =
  '{"currentScene":"Arena","engineVersion":"4.6-stable (official)","gameName":"Arena","locale":"","startedAt":"2026-11-22T03:23:56"}';
const FROM_THE_PLUGIN = `{"build":{"channel":"dev","gitCommit":"5d0c1f7e9a2b","platform":"Web","version":"1.4.2"},"metadata":${METADATA},"player":{"deviceId":""}}`;

describe.concurrent('a session with a build', () => {
  test('as the Godot plugin sends it is a 201, and is stored as it was sent', async () => {
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
      sequence: null,
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

  test('gives its build to its events and its reports’ events, unless they name a build', async () => {
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

  test('sent again with the same id is a 200 if every field is equal, and a 409 otherwise', async () => {
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

describe('builds and players', () => {
  test('are listed with their sessions, newest first, in pages, and only for their project', async () => {
    const mine = await shared.aProject({ revision: 'B' });
    const other = await shared.aProject({ revision: 'B', tenantId: mine.tenantId });
    const next = { ...BUILD, version: '1.5.0', channel: 'prod' };
    const externalId = 'name with / and ü';
    const sessions: string[] = [];
    for (const build of [BUILD, next, next]) {
      sessions.push(await mine.session({ build, player: { externalId } }));
    }
    await mine.session({ build: BUILD });
    await other.session({ build: BUILD, player: { externalId } });

    const builds = (await mine.get('/v1/builds')).json();
    expect(builds.next).toBeNull();
    expect(builds.builds).toMatchObject([
      { id: buildIdOf(mine.projectId, next), ...next, sessions: 2 },
      { id: buildIdOf(mine.projectId, BUILD), ...BUILD, sessions: 2 },
    ]);
    const player = `/v1/players/${encodeURIComponent(externalId)}/sessions`;
    const first = (await mine.get(`${player}?limit=2`)).json();
    const second = (await mine.get(`${player}?limit=2&cursor=${first.next}`)).json();
    expect(second.next).toBeNull();
    const listed = [...first.sessions, ...second.sessions];
    expect(listed.map(({ id }: { id: string }) => id)).toEqual(sessions.toReversed());
    expect(listed[0]).toMatchObject({ build: next, player: { externalId, deviceId: null } });
    expect(listed[0]).not.toHaveProperty('metadata');
    expect((await other.get(player)).json().sessions).toHaveLength(1);
    expect((await other.get(`/v1/sessions/${sessions[0]}`)).status).toBe(404);
    expect((await mine.get('/v1/players/nobody/sessions')).json()).toEqual({ sessions: [], next: null });
  });

  test('are ClickHouse tables, next to game_events', async () => {
    const mine = await shared.aProject({ revision: 'B' });
    const [one, two] = [
      await mine.session({ build: BUILD, player: { externalId: 'p1' } }),
      await mine.session({ build: { ...BUILD, platform: 'iOS' }, player: { externalId: 'p2' } }),
    ];
    await mine.session({ player: { externalId: 'p2' } });
    const of = [one, one, two].map((sessionId) => anEvent({ sessionId }));
    const { id } = (await mine.post([...of, anEvent()])).json().at(-1);
    await mine.get(`/v1/events/${id}`);
    await mine.get(`/v1/sessions/${two}`);
    const ask = (sql: string) => shared.product.sql(sql.replace('MINE', `project_id = '${mine.projectId}'`));

    expect(
      await ask(
        `SELECT platform, version, player_external_id, toInt32(count()) AS events FROM game_events WHERE MINE
         GROUP BY ALL ORDER BY events DESC, platform NULLS LAST`,
      ),
    ).toEqual([
      { platform: 'Web', version: '1.4.2', player_external_id: 'p1', events: 2 },
      { platform: 'iOS', version: '1.4.2', player_external_id: 'p2', events: 1 },
      { platform: null, version: null, player_external_id: null, events: 1 },
    ]);
    expect(
      await ask(
        'SELECT external_id, toInt32(sessions) AS sessions FROM players WHERE MINE ORDER BY external_id',
      ),
    ).toEqual([
      { external_id: 'p1', sessions: 1 },
      { external_id: 'p2', sessions: 2 },
    ]);
    expect(
      await ask('SELECT platform, toInt32(sessions) AS sessions FROM builds WHERE MINE ORDER BY platform'),
    ).toEqual([
      { platform: 'Web', sessions: 1 },
      { platform: 'iOS', sessions: 1 },
    ]);
  });
});

test('metadata is stored and returned byte for byte', async () => {
  const metadata =
    '{ "u":18446744073709551615,"f":1.0,"z":-0,"e":1e400,"b":1,"a":2,"a":3,"s":"\\ud800 ü 🗡" }';
  const { id } = (await register(`{"metadata":${metadata}}`)).json();
  const answer = await game.get(`/v1/sessions/${id}`);
  expect(answer.text().endsWith(`"metadata":${metadata}}`)).toBe(true);
  expect(
    await shared.product.sql(`SELECT lower(hex(metadata)) AS hex FROM sessions WHERE id = '${id}'`),
  ).toEqual([{ hex: Buffer.from(metadata).toString('hex') }]);
});

function register(body: unknown) {
  return game.request('POST', '/v1/ingest/sessions', { body });
}

function buildsOf(events: readonly { buildId: string | null }[]): (string | null)[] {
  return events.map(({ buildId }) => buildId);
}
