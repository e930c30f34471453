/** Tests the limits that are checked when an erasure is requested. */
import { randomUUID } from 'node:crypto';
import { emptyDirectory } from '@questlog/runtime/directory/directory';
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import type { Log } from '@questlog/runtime/log/log';
import { systemClock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { anErasure } from '@questlog/schemas/fixtures/builders';
import { directoryEntry, type Erasure } from '@questlog/schemas/topics/directoryEntry';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { MAX_IDS_PER_RECORD, MAX_SESSIONS_PER_RECORD } from './core/scope.ts';
import { MAX_LISTED, openErasures } from './erasures.ts';
import { openPlayerSessions } from './playerSessions.ts';

const NO_LETTERS = { valuesOf: async () => [] };
const [TENANT, PROJECT] = [randomUUID(), randomUUID()];
const MAX_ERASED_IDS = 50_000;

interface Asking {
  readonly sessions?: number;
  readonly reports?: number;
  readonly known?: number;
  readonly earlier?: Erasure[];
  readonly filedIn?: () => Promise<void>;
  readonly kept?: Log['retention'];
}

const DAY_MS = 86_400_000;
const keptForADay = async () => ({ retentionMs: DAY_MS, deletedAfterMs: DAY_MS });

function asking(of: Asking) {
  const {
    sessions = 0,
    reports = 0,
    known = 0,
    earlier = [],
    filedIn = async () => {},
    kept = keptForADay,
  } = of;
  const ids = Array.from({ length: sessions }, () => randomUUID()).sort();
  const rows = ids.map((id) => ({ projectId: PROJECT, id }));
  const pages: number[] = [];
  const query = async (sql: string, { afterId }: { afterId?: string } = {}) => {
    if (sql.includes('FROM expired_sessions')) return [];
    if (!sql.startsWith('SELECT DISTINCT')) return [{ reports: String(reports) }];
    const from = rows.findIndex(({ id }) => afterId === undefined || id > afterId);
    const page = from < 0 ? [] : rows.slice(from, from + Number(/LIMIT (\d+)$/.exec(sql)?.[1]));
    pages.push(page.length);
    return page;
  };
  const project = { id: PROJECT, tenantId: TENANT };
  const current = {
    ...emptyDirectory(),
    ...{ tenants: new Map([[TENANT, {}]]), projects: new Map([[PROJECT, project]]) },
    ...{ erased: { ids: known, hasSession: () => false } },
    erasures: new Map(earlier.map((one) => [one.id, one])),
  };
  const written: Erasure[] = [];
  const change = async (_kind: string, id: string, decide: () => { entity: Erasure; answer: unknown }) => {
    const { entity, answer } = decide();
    written.push(entity);
    current.erasures.set(id, entity);
    return answer;
  };
  const caughtUp = async () => {};
  const deps = {
    ...{ directory: { current, change, caughtUp } as never, store: { query } as never, clock: systemClock },
    ...{ sessionProjection: { caughtUp }, reportProjection: { caughtUp: filedIn } },
  };
  const players = openPlayerSessions({
    ...{ ...deps, log: {} as never, sessionCodec: {} as never, deadLetters: NO_LETTERS },
    playerKey: async () => ({ id: 1, bytes: Buffer.alloc(32) }),
  });
  const erasures = openErasures(
    { ...deps, players, log: { retention: kept }, maxErasedIds: MAX_ERASED_IDS },
    () => {},
  );
  return { erasures, written, pages };
}

test('erases a player with more sessions than a record can have, and returns one receipt', async () => {
  const player = { externalId: 'kim' };
  const { erasures, written, pages } = asking({ sessions: 45_000 });
  const unasked = erasures.request({ tenantId: TENANT, player });
  await expect(unasked).rejects.toThrow(`more than ${MAX_SESSIONS_PER_RECORD} sessions match`);
  expect(written).toEqual([]);
  const { id } = await erasures.request({ tenantId: TENANT, player, many: true });
  const ids = written.map(({ sessions }) => sessions?.flatMap((of) => of.ids) ?? []);
  expect(ids.map(({ length }) => length).sort()).toEqual([20_000, 20_000, 5_000]);
  expect(new Set(ids.flat()).size).toBe(45_000);
  // Sessions are read in pages, because a result with all sessions would block requests of games.
  expect(Math.max(...pages)).toBeLessThanOrEqual(20_001);
  expect(erasures.list().map((one) => one.id)).toEqual([id]);
});

test('erases a session with more reports than a record can have', async () => {
  const { erasures, written } = asking({ reports: 40_000 });
  await erasures.request({ tenantId: TENANT, sessionId: randomUUID() });
  expect(written).toHaveLength(1);
});

test('limits the erased ids in memory, and beyond the limit erases only projects and tenants', async () => {
  const [player, many] = [{ externalId: 'kim' }, true];
  const full: [Asking, object][] = [
    [{ known: MAX_ERASED_IDS }, { sessionId: randomUUID() }],
    [{ reports: MAX_ERASED_IDS }, { sessionId: randomUUID() }],
    [{ sessions: 2, known: MAX_ERASED_IDS - 1 }, { player }],
    [{ sessions: MAX_ERASED_IDS + 100 }, { player, many }],
  ];
  for (const [of, asked] of full) {
    const { erasures, written } = asking(of);
    const refused = erasures.request({ tenantId: TENANT, ...asked });
    await expect(refused).rejects.toThrow(`the limit is ${MAX_ERASED_IDS}. Increase QUESTLOG_ERASED_IDS`);
    expect(written).toEqual([]);
  }
  const { erasures, written } = asking({ known: MAX_ERASED_IDS });
  await erasures.request({ tenantId: TENANT, projectId: PROJECT });
  expect(written).toHaveLength(1);
});

test('the largest part of an erasure fits into a record', async () => {
  const log = await aLog();
  await log.ensureTopics(topicDefinitions(1));
  const codec = await createCodec(await openLogRegistry(log), directoryEntry);
  const ids = (count: number) => [
    { projectId: PROJECT, ids: Array.from({ length: count }, () => randomUUID()) },
  ];
  const reports = MAX_IDS_PER_RECORD - MAX_SESSIONS_PER_RECORD;
  const erasure = anErasure({
    ...{ sessions: ids(MAX_SESSIONS_PER_RECORD), reports: ids(reports), problem: 'p'.repeat(2_000) },
  });
  const value = codec.encode({
    tenant: null,
    project: null,
    token: null,
    erasure: { ...erasure, partOf: randomUUID() },
  });
  const record = { key: `erasure:${erasure.id}`, value, headers: {} };
  await expect(log.append(TOPICS.directory, 0, [record])).resolves.toMatchObject({ baseOffset: 0 });
});

test('an erasure that is requested again after a failure has the sessions of the first request, whose rows are hidden', async () => {
  const earlier = (player: Erasure['player'], state: Erasure['state']): Erasure => ({
    ...anErasure({ tenantId: TENANT, player, state }),
    sessions: [{ projectId: PROJECT, ids: [randomUUID()] }],
  });
  const failed = earlier({ externalId: 'kim', deviceId: null }, 'failed');
  const running = earlier({ externalId: 'kim', deviceId: 'pad' }, 'running');
  const others = [
    earlier({ externalId: 'kim', deviceId: null }, 'done'),
    earlier({ externalId: 'lee', deviceId: null }, 'failed'),
    earlier({ externalId: null, deviceId: 'pad' }, 'failed'),
  ];
  const { erasures, written } = asking({ sessions: 2, earlier: [failed, running, ...others] });
  await erasures.request({ tenantId: TENANT, player: { externalId: 'kim' } });
  const [{ sessions }] = written as [Erasure];
  const ids = sessions?.flatMap((of) => of.ids) ?? [];
  const first = [failed, running].flatMap((one) => one.sessions ?? []).flatMap((of) => of.ids);
  expect(ids).toHaveLength(4);
  expect(ids).toEqual(expect.arrayContaining(first));
});

test('waits until the reports of a session are in ClickHouse, because their rows determine the links', async () => {
  const steps: string[] = [];
  const behind = async () => {
    throw new Unavailable('the projection has not caught up with the log yet');
  };
  const sessionId = randomUUID();
  const late = asking({ filedIn: behind });
  await expect(late.erasures.request({ tenantId: TENANT, sessionId })).rejects.toThrow('caught up');
  expect(late.written).toEqual([]);
  const inTime = asking({ filedIn: async () => void steps.push(`written: ${inTime.written.length}`) });
  await inTime.erasures.request({ tenantId: TENANT, sessionId });
  expect([steps, inTime.written.length]).toEqual([['written: 0'], 1]);
  // An erasure of a project does not wait, because its links are selected by their time.
  await late.erasures.request({ tenantId: TENANT, projectId: PROJECT });
  expect(late.written).toHaveLength(1);
});

test('lists the newest erasures, and finds older ones by id', async () => {
  const earlier = Array.from({ length: MAX_LISTED + 1 }, (_, requestedAt) => anErasure({ requestedAt }));
  const { erasures } = asking({ earlier });
  const listed = erasures.list().map(({ id }) => id);
  expect(listed).toEqual(
    earlier
      .slice(1)
      .map(({ id }) => id)
      .reverse(),
  );
  expect(erasures.find(earlier[0]?.id ?? '').id).toBe(earlier[0]?.id);
});

test('finds an erasure by the id of a part, because logs and ClickHouse contain that id', () => {
  const root = anErasure({ state: 'running' });
  const part = anErasure({ state: 'done', partOf: root.id });
  const { erasures } = asking({ earlier: [part, root] });
  expect(erasures.find(part.id)).toEqual(erasures.find(root.id));
  expect(erasures.find(part.id)).toMatchObject({ id: root.id, state: 'running' });
});

test('an erasure that waits for a ClickHouse node is running, although it has not deleted anything', () => {
  const [waiting, queued] = [anErasure({ problem: 'a node does not answer' }), anErasure()];
  const { erasures } = asking({ earlier: [waiting, queued] });
  expect([waiting, queued].map(({ id }) => erasures.find(id).state)).toEqual(['running', 'queued']);
});

test('the log expires with its longest topic, by the current retention of the brokers', async () => {
  const expiry = async (daysOfSessions: number) => {
    const kept = async (topic: string) => {
      const deletedAfterMs =
        DAY_MS * (topic === TOPICS.sessions ? daysOfSessions : topic === TOPICS.audit ? 365 : 14);
      return { retentionMs: deletedAfterMs, deletedAfterMs };
    };
    return (await asking({ sessions: 1, kept }).erasures.request({ tenantId: TENANT })).receipt;
  };
  const long = await expiry(400);
  expect(Date.parse(long.logExpiresAt) - Date.parse(long.asked.at)).toBe(400 * DAY_MS);
  const short = await expiry(1);
  expect(Date.parse(short.logExpiresAt) - Date.parse(short.asked.at)).toBe(14 * DAY_MS);
  expect((await expiry(Number.POSITIVE_INFINITY)).logExpiresAt).toBe('9999-12-31T00:00:00.000Z');
});
