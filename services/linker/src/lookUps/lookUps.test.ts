/** Tests which conditions a lookup waits for. */
import { randomUUID } from 'node:crypto';
import { cachedTableUuids } from '@questlog/runtime/clickhouse/restored/tableUuids';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { openDatabase } from '@questlog/runtime/log/embedded/database';
import { embeddedLogOn } from '@questlog/runtime/log/embedded/embeddedLog';
import { aDirectory } from '@questlog/runtime/log/embedded/testing/testLog';
import type { Log } from '@questlog/runtime/log/log';
import { watchProjections } from '@questlog/runtime/log/projection/projection';
import { withMethods } from '@questlog/runtime/log/testing/alteredLog';
import { systemClock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { aReportLink } from '@questlog/schemas/fixtures/builders';
import { partitionOf } from '@questlog/schemas/partition';
import { PROJECTED } from '@questlog/schemas/tables/projected';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test, vi } from 'vitest';
import { keyOf } from '../core/decision.ts';
import { LINKER_BOUNDS, LinkerState } from '../core/linkerState.ts';
import { partitionDeps } from '../testing/partitionDeps.ts';
import { LookUp, LookUps } from './lookUps.ts';

let tenant = randomUUID();
while (partitionOf(tenant, 0, 2) !== 1) tenant = randomUUID();
const AT_HOME_IN_1 = tenant;

/** Returns an overdue lookup of partition 0 for one report at offset 5. The linker has read records of leader epoch 2. */
async function aLookUp(
  methods: Partial<Log> = {},
  kind: 'check' | 'close' | 'unlink' = 'check',
  query: Store['query'] = async () => [],
) {
  const directory = aDirectory();
  const log = embeddedLogOn(openDatabase(directory), { directory, clock: systemClock });
  onTestFinished(() => log.close());
  await log.ensureTopics(topicDefinitions(1));
  const known = await partitionDeps(log);
  const alteredLog = withMethods<Log>(log, methods);
  const deps = {
    ...known,
    log: alteredLog,
    store: { ...known.store, query },
    projections: watchProjections(alteredLog, cachedTableUuids({ query })),
    sessions: { ...known.sessions, load: async () => true },
  };
  const committed = { events: 3, eventsEpoch: null, links: 0, reportLinksEpoch: 2 };
  const outbox = { state: new LinkerState(0, 2, LINKER_BOUNDS), committed };
  const record = aReportLink({ tenantId: AT_HOME_IN_1, sessionLane: 0 });
  const report = { record, offset: 5, phase: 'waiting', askAt: 0, closesAt: 0 } as const;
  const asked = new Map([[keyOf(record), report]]);
  const lookUp = new LookUp(kind === 'unlink' ? { kind, retractions: asked } : { kind, reports: asked });
  vi.spyOn(LookUp.prototype, 'isOverdue', 'get').mockReturnValue(true);
  onTestFinished(() => void vi.restoreAllMocks());
  const isOver = new AbortController();
  onTestFinished(() => isOver.abort());
  const lookUps = new LookUps(outbox, deps, isOver.signal);
  const { sessionsWithReports } = outbox.state;
  return { lookUp, lookUps, sessionsWithReports, answer: () => lookUps.answer(lookUp) };
}

test('a lookup that started before a truncation continues with the current log', async () => {
  const { answer, lookUp } = await aLookUp(
    { endOffset: async () => 3, committed: async () => [{ offset: 3, metadata: '' }] },
    'close',
  );
  lookUp.ends = { events: [100], reports: [], sessions: [100] };
  expect(await answer()).toBeUndefined();
  lookUp.restart();
  expect(await answer()).toMatchObject({ kind: 'close' });
});

const ANSWER = { kind: 'check', projected: new Map() };

test('an overdue lookup does not wait for a record that a truncation has removed', async () => {
  const { answer } = await aLookUp();
  expect(await answer()).toMatchObject(ANSWER);
});

test('an overdue lookup keeps waiting while a partition has no leader', async () => {
  const { answer } = await aLookUp({
    endOffset: async (topic) => {
      if (topic === TOPICS.reportLinks) throw new Unavailable('it has no leader');
      return 0;
    },
  });
  expect(await answer()).toBeUndefined();
});

test('a commit of the projector in an earlier log does not count as projection of this log', async () => {
  const last = { offset: 5, id: 'the last' };
  let note: object = { last: { ...last, leaderEpoch: 1 } };
  const { answer } = await aLookUp({
    committed: async () => [{ offset: 6, metadata: JSON.stringify(note) }],
    endOffset: async () => 6,
  });
  expect(await answer()).toBeUndefined();
  // The projector has repaired one truncation, but has not noticed the next truncation.
  note = { upToEpoch: 1 };
  expect(await answer()).toBeUndefined();
  for (const known of [{}, { last }, { last: { ...last, leaderEpoch: 2 } }]) {
    note = known;
    expect(await answer()).toMatchObject(ANSWER);
  }
});

test.each([
  [1, false],
  [2, true],
])(
  'the leader epoch %i of a block that is being written also holds for the records below it',
  async (leaderEpoch, isPast) => {
    const note = { pendingTo: 9, last: { offset: 8, id: 'of the block', leaderEpoch } };
    const { answer } = await aLookUp({
      committed: async () => [{ offset: 6, metadata: JSON.stringify(note) }],
      endOffset: async () => 9,
    });
    expect((await answer()) !== undefined).toBe(isPast);
  },
);

test('a retraction that was copied from the home partition waits for the projection of the home partition', async () => {
  const projected = [6, 2];
  const { answer } = await aLookUp(
    {
      committed: async () => projected.map((offset) => ({ offset, metadata: '' })),
      endOffset: async (_, partition) => [6, 3][partition] ?? 0,
    },
    'unlink',
  );
  expect(await answer()).toBeUndefined();
  projected[1] = 3;
  expect(await answer()).toMatchObject({ kind: 'unlink' });
});

/** Simulates restored tables. The UUIDs of the tables match the commits only after the test has changed the commits. */
function restoredTables() {
  const tables = { committed: 'of before', now: 'of the backup' };
  const committed: Log['committed'] = async () => [
    { offset: 6, metadata: JSON.stringify({ tables: tables.committed }) },
  ];
  const asked = Object.values(PROJECTED).map(({ table }) => table);
  const query = (async (sql: string) =>
    sql.includes('system.tables') ? asked.map((name) => ({ name, uuid: tables.now })) : []) as Store['query'];
  return { tables, committed, query };
}

test.each(['check', 'close'] as const)(
  'a %s waits until the projector has noticed restored tables',
  async (kind) => {
    const { tables, committed, query } = restoredTables();
    const { answer } = await aLookUp({ committed }, kind, query);
    expect(await answer()).toBeUndefined();
    tables.committed = tables.now;
    expect(await answer()).toMatchObject({ kind });
  },
);

test('does not load sessions with reports from a restored table that lacks reports', async () => {
  const { tables, committed, query } = restoredTables();
  const looked = Promise.withResolvers<void>();
  const { lookUps, sessionsWithReports } = await aLookUp(
    { committed, endOffsets: async () => [6] },
    'check',
    async (sql, ...rest) => {
      if (sql.includes('system.tables')) looked.resolve();
      return await query(sql, ...rest);
    },
  );
  const learnt = lookUps.loadSessions();
  await Promise.race([looked.promise, learnt]);
  expect(sessionsWithReports.mayContain('any')).toBe(true);
  tables.committed = tables.now;
  await learnt;
  expect(sessionsWithReports.mayContain('any')).toBe(false);
});

test('the poll interval of a lookup grows with its age', () => {
  const now = vi.spyOn(performance, 'now').mockReturnValue(0);
  onTestFinished(() => now.mockRestore());
  const lookUp = new LookUp({ kind: 'check', reports: new Map() });
  const pollMs = [100, 800, 60_000].map((ageMs) => {
    now.mockReturnValue(ageMs);
    return lookUp.pollMs;
  });
  expect(pollMs).toEqual([20, 100, 250]);
});
