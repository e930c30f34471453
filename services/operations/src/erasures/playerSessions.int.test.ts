/** Tests on the real engines that an erasure finds the data of a player whose sessions have expired. */
import { randomUUID } from 'node:crypto';
import { sharedStore } from '@questlog/runtime/clickhouse/chdb/testing/storedReports';
import { emptyDirectory } from '@questlog/runtime/directory/directory';
import { aLog, ManualClock } from '@questlog/runtime/log/embedded/testing/testLog';
import { silentLogger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { aSession } from '@questlog/schemas/fixtures/builders';
import { partitionOf } from '@questlog/schemas/partition';
import type { Erasure } from '@questlog/schemas/topics/directoryEntry';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { dropExpired } from '../retention/retention.ts';
import { openErasures } from './erasures.ts';
import { openPlayerSessions } from './playerSessions.ts';
import { runErasures } from './runErasures.ts';

const DAY_MS = 86_400_000;
const PARTITIONS = 2;
const KEY = { id: 7, bytes: Buffer.alloc(32, 3) };
const PLAYER = { externalId: 'night-owl', deviceId: 'pad' };
const shared = sharedStore();

test('erases the events and the report of a player whose session has expired', async () => {
  const game = await aGame();
  const [night, other] = [await game.aNight(), await game.aNight({ player: 'lark' })];
  await game.retain('2026-11-22T00:01:00Z');
  expect(await game.rows()).toEqual({ sessions: 0, events: 14, reports: 2, records: 2 });

  const erased = await game.erase({ externalId: 'night-owl' });

  expect(erased.sessions).toEqual([{ projectId: game.projectId, ids: [night] }]);
  expect(erased.found).toMatchObject({ sessions: 1, events: 7, reports: 1 });
  expect(await game.rows()).toEqual({ sessions: 0, events: 7, reports: 1, records: 1 });
  expect((await game.erase({ deviceId: 'pad', externalId: 'lark' })).sessions?.[0]?.ids).toEqual([other]);
  // The device id alone selects both sessions. Their events are already erased.
  expect((await game.erase({ deviceId: 'pad' })).found.events).toBe(0);
});

test('an erasure of a session or of a project removes the records of expired sessions', async () => {
  const game = await aGame();
  const night = await game.aNight();
  await game.aNight();
  await game.retain('2026-11-22T00:01:00Z');
  await game.erase({}, { sessionId: night });
  expect(await game.rows()).toEqual({ sessions: 0, events: 7, reports: 1, records: 1 });
  await game.erase({});
  expect(await game.rows()).toEqual({ sessions: 0, events: 0, reports: 0, records: 0 });
});

test('finds a session of the player that never had a row by its registration, which is a dead letter', async () => {
  const game = await aGame();
  const sessionId = randomUUID();
  game.bury(sessionId);
  const erased = await game.erase({ externalId: 'night-owl' });
  expect(erased.sessions).toEqual([{ projectId: game.projectId, ids: [sessionId] }]);
  expect((await game.erase({ externalId: 'lark' })).sessions).toEqual([]);
});

test('finds a session that an earlier version dropped without a record by its registration in the log', async () => {
  const game = await aGame();
  const night = await game.aNight();
  await game.dropUnrecorded();

  const erased = await game.erase({ externalId: 'night-owl' });

  expect(erased.sessions).toEqual([{ projectId: game.projectId, ids: [night] }]);
  expect(erased.found).toMatchObject({ events: 7, reports: 1 });
  expect(await game.unresolved()).toBeNull();
});

test('an erasure is not done while an earlier version has dropped a session whose registration has left the log', async () => {
  const game = await aGame();
  await game.aNight({ isLogged: false });
  const known = await game.aNight({ player: 'lark', isLogged: true });
  await game.dropUnrecorded();

  const erased = await game.erase({ externalId: 'night-owl' });

  expect(erased.sessions).toEqual([]);
  expect(await game.unresolved()).toContain(`1 sessions of project ${game.projectId} expired before`);
  await game.erase({ externalId: 'lark' });
  expect((await game.erase({ externalId: 'lark' })).sessions).toEqual([
    { projectId: game.projectId, ids: [known] },
  ]);
  // Moves the clock until the events have expired, and then until the log has no records of these sessions.
  await game.retain('2026-11-24T00:01:00Z');
  expect(await game.unresolved()).not.toBeNull();
  await game.retain('2026-12-25T00:01:00Z');
  expect(await game.unresolved()).toBeNull();
});

test('a record of an expired session stays while rows name the session, and then while the log keeps records', async () => {
  const game = await aGame({ events: 60, reports: 60, uploads: 60 });
  await game.aNight();
  await game.retain('2026-11-22T00:01:00Z');
  // The log keeps records for 30 days.
  for (const day of ['2026-12-23', '2027-01-23', '2027-02-20']) {
    await game.retain(`${day}T00:01:00Z`);
    expect(await game.rows(), day).toMatchObject({ records: 1 });
  }
  expect(await game.rows()).toMatchObject({ events: 0, reports: 0 });
  await game.retain('2027-03-26T00:01:00Z');
  expect(await game.rows()).toMatchObject({ records: 0 });
});

interface Night {
  readonly player?: string;
  readonly isLogged?: boolean;
}

/** Creates a project that keeps all data for one day. @param days other retention days */
async function aGame(days: object = {}) {
  const { store } = shared;
  const clock = new ManualClock();
  const [tenantId, projectId] = [randomUUID(), randomUUID()];
  const retentionDays = { events: 1, sessions: 1, reports: 1, links: 1, uploads: 1, ...days };
  const project = { ...{ id: projectId, tenantId, name: 'P', revision: null, createdAt: 0 }, retentionDays };
  const log = await aLog({ clock });
  await log.ensureTopics(topicDefinitions(PARTITIONS));
  const sessionCodec = await createCodec(await openLogRegistry(log), sessionRegistered);
  const current = {
    ...emptyDirectory(),
    ...{ tenants: new Map([[tenantId, { id: tenantId }]]), projects: new Map([[projectId, project]]) },
  };
  const change = async (
    _: string,
    id: string,
    decide: (of: unknown) => { entity?: Erasure; answer: unknown },
  ) => {
    const { entity, answer } = decide(current.erasures.get(id));
    if (entity !== undefined) current.erasures.set(id, entity);
    if (entity !== undefined) current.erased.add(entity);
    return answer;
  };
  const caughtUp = async () => {};
  const letters: Buffer[] = [];
  const deps = {
    ...{ store, log, clock, sessionCodec, sessionProjection: { caughtUp }, reportProjection: { caughtUp } },
    ...{ playerKey: async () => KEY, logRetentionMs: async () => 30 * DAY_MS, caughtUp, maxErasedIds: 1_000 },
    deadLetters: { valuesOf: async () => letters },
    ...{ projects: current.projects as never, uploads: undefined, logger: silentLogger },
    directory: { current, change, caughtUp } as never,
  };
  const players = openPlayerSessions(deps);
  const runs = runErasures({
    ...{ ...deps, players, projections: [], deadLetters: { discardHidden: async () => 0 } },
    store: { ...store, insertsEndWithinMs: 0 },
  });
  onTestFinished(() => runs.close());
  const erasures = openErasures({ ...deps, players }, () => runs.notify());
  const addRows = async (table: string, rows: readonly object[]) => {
    const columns = Object.keys(rows[0] ?? {});
    const values = rows.map((row) => `(${Object.values(row).map((value) => `'${value}'`)})`);
    await store.command(`INSERT INTO ${table} (${columns}) VALUES ${values}`);
  };
  const ids = { tenant_id: tenantId, project_id: projectId };
  const expiredBefore = Date.UTC(2026, 10, 21);
  return {
    projectId,
    /** Adds a session that was registered at 23:50. Its 7 events and its report arrived at 00:10. */
    aNight: async ({ player = 'night-owl', isLogged = true }: Night = {}) => {
      const sessionId = randomUUID();
      const [registered, sent] = ['2026-11-20 23:50:00', '2026-11-21 00:10:00'];
      clock.nowMs = Date.parse('2026-11-20T23:50:00Z');
      const of = { player_external_id: player, player_device_id: PLAYER.deviceId, registered_at: registered };
      await addRows('sessions', [{ ...ids, id: sessionId, ...of }]);
      const event = { ...ids, session_id: sessionId, received_at: sent };
      await addRows(
        'events',
        Array.from({ length: 7 }, () => ({ id: randomUUID(), ...event })),
      );
      await addRows('report_versions', [{ id: randomUUID(), ...event }]);
      const session = aSession({
        ...{ tenantId, projectId, sessionId, registeredAt: clock.nowMs },
        ...{ playerExternalId: player, playerDeviceId: PLAYER.deviceId },
      });
      const record = { key: tenantId, value: sessionCodec.encode(session) };
      if (isLogged) await log.append(TOPICS.sessions, partitionOf(tenantId, 0, PARTITIONS), [record]);
      return sessionId;
    },
    bury: (sessionId: string) => {
      const of = { tenantId, projectId, sessionId, playerExternalId: 'night-owl' };
      letters.push(Buffer.from('unreadable'), sessionCodec.encode(aSession(of)));
    },
    retain: async (at: string) => {
      clock.nowMs = Date.parse(at);
      await dropExpired(deps);
    },
    dropUnrecorded: async () => {
      clock.nowMs = Date.parse('2026-11-22T00:01:00Z');
      await store.command(
        `ALTER TABLE sessions DELETE WHERE project_id = '${projectId}' SETTINGS mutations_sync = 1`,
      );
      await store.command(
        `INSERT INTO retention_marks (project_id, what, expired_before, is_done)
         VALUES ('${projectId}', 'sessions', fromUnixTimestamp64Milli(${expiredBefore}), 1)`,
      );
    },
    /** Requests an erasure. @returns the erasure as soon as none of its data can be read. */
    erase: async (player: object, more: object = {}) => {
      const named = Object.keys(player).length === 0 ? {} : { player };
      const { id } = await erasures.request({ tenantId, projectId, ...named, ...more });
      await expect.poll(() => current.erasures.get(id)?.hiddenAt, { timeout: 20_000 }).toBeTypeOf('number');
      return current.erasures.get(id) as Erasure;
    },
    unresolved: () => players.unresolved({ tenantId, projectId }),
    rows: async () => {
      const of = `WHERE project_id = '${projectId}'`;
      const [row] = await store.query(
        `SELECT (SELECT toUInt32(count()) FROM sessions ${of}) AS sessions,
           (SELECT toUInt32(count()) FROM events ${of}) AS events,
           (SELECT toUInt32(count()) FROM report_versions ${of}) AS reports,
           (SELECT toUInt32(uniqExact(session_id)) FROM expired_sessions ${of}) AS records`,
      );
      return row;
    },
  };
}
