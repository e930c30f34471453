/** Tests how reads wait for the projection, and their requests to the brokers. */

import { PROJECTED } from '@questlog/schemas/tables/projected';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { systemClock } from '../../process/clock.ts';
import { Unavailable } from '../../process/errors.ts';
import type { Committed, Log } from '../log.ts';
import { type Projection, watchLinks, watchProjection, watchProjections } from './projection.ts';

/** Time that is far longer than a read without a wait, even on a busy machine. */
const LONG_MS = 200;

test('a read requests the end offsets and the commits once, and no start offsets', async () => {
  const { projection, asked } = aLog({ ends: [5, 3], commits: [5, 3] });
  await projection.caughtUp('all');
  expect(asked).toEqual({ endOffsets: 1, committed: 1, offsetRanges: 0 });
});

test('a read waits for its own partitions only', async () => {
  const { projection, state } = aLog({ ends: [5, 3], commits: [4, 0] });
  let isDone = false;
  const reading = projection.caughtUp([0]).then(() => {
    isDone = true;
  });
  const asked = state.polls;
  await expect.poll(() => state.polls).toBeGreaterThan(asked + 2);
  expect(isDone).toBe(false);
  state.commits = [5, 0];
  await reading;
});

test('a partition without a commit is projected up to its start offset', async () => {
  const { projection, asked } = aLog({ ends: [5, 7], commits: [5, undefined], starts: [0, 7] });
  await projection.caughtUp('all');
  expect(asked.offsetRanges).toBe(1);
  expect(await projection.projected()).toEqual([5, 7]);
});

test('requests no start offset of an empty or other partition without a commit', async () => {
  const { projection, asked } = aLog({ ends: [5, 7, 0], commits: [5, undefined, undefined] });
  await projection.caughtUp([0]);
  await projection.caughtUp([0, 2]);
  expect(asked.offsetRanges).toBe(0);
  await expect(projection.caughtUp([1], 0)).rejects.toBeInstanceOf(Unavailable);
});

test('a read of partitions with leaders does not wait for one without', async () => {
  const { projection } = aLog({ ends: [5, NO_LEADER], commits: [5, 3] });
  await projection.caughtUp([0]);
  await expect(projection.caughtUp([0, 1])).rejects.toBeInstanceOf(Unavailable);
  await expect(projection.caughtUp('all')).rejects.toBeInstanceOf(Unavailable);
});

test.each(['endOffsets', 'committed'] as const)(
  'a wait for all partitions ends at its timeout while the brokers do not answer: %s',
  async (question) => {
    const { log } = aLog({ ends: [5], commits: [5] });
    const silent = { ...log, [question]: () => new Promise<never>(() => undefined) };
    await expect(watch(silent).caughtUp('all', 50)).rejects.toBeInstanceOf(Unavailable);
  },
);

test('a long wait ends when it is aborted', async () => {
  const { projection } = aLog({ ends: [5], commits: [4] });
  const off = new AbortController();
  const reading = projection.caughtUp('all', 60_000, off.signal);
  off.abort();
  await expect(reading).rejects.toBeInstanceOf(Unavailable);
});

test('concurrent waits share polls', async () => {
  const { projection, asked, state } = aLog({ ends: [5], commits: [4] });
  const reading = Array.from({ length: 50 }, () => projection.caughtUp('all'));
  await expect.poll(() => state.polls).toBeGreaterThan(2);
  state.commits = [5];
  await Promise.all(reading);
  expect(asked.committed).toBeLessThan(50);
});

test('does not trust a commit above the end of a truncated log', async () => {
  const given = { ends: [5, 3], commits: [9, 3] };
  const { projection, state } = aLog(given);
  await projection.caughtUp([1]);
  await expect(projection.caughtUp('all', LONG_MS)).rejects.toBeInstanceOf(Unavailable);
  const reading = projection.caughtUp('all');
  state.commits = [5, 3];
  await reading;
});

test('accepts a commit above the old end if the log has grown', async () => {
  const given = { ends: [5], commits: [6] };
  const { projection, asked } = aLog(given, () => asked.endOffsets > 1 && given.ends.splice(0, 1, 6));
  await projection.caughtUp('all');
  expect(asked.endOffsets).toBe(2);
});

test('waits while a commit names the table from before a restore, and accepts one that names no table', async () => {
  const { log, state } = aLog({ ends: [5, 3], commits: [5, 3] });
  const projection = watch(log, async () => 'restored');
  state.tables = ['restored', 'of before'];
  await projection.caughtUp([0]);
  await expect(projection.caughtUp('all', LONG_MS)).rejects.toBeInstanceOf(Unavailable);
  state.tables = ['restored', undefined];
  await projection.caughtUp('all');
});

test('names the partitions that lack required records', async () => {
  const { projection, asked } = aLog({ ends: [5, 9, 3], commits: [4, 9, 2] });
  const required = [5, 5, 3].map((offset, partition) => [partition, { offset }] as const);
  expect(await projection.unprojected(new Map(required))).toBe('g on t/0, t/2');
  expect(asked.endOffsets).toBe(0);
  expect(await projection.unprojected(new Map([[0, { offset: 0 }]]))).toBeUndefined();
  expect(asked.committed).toBe(1);
  await expect(projection.caughtUp('all', 0)).rejects.toMatchObject({ retryAfterS: 1 });
  expect(await projection.lastRecords()).toEqual([undefined, undefined, undefined]);
});

test('accepts the end of a truncated log instead of lost records only if the caller allows it', async () => {
  const given = { ends: [3], commits: [3] };
  const { log, projection } = aLog(given);
  const required = new Map([[0, { offset: 5 }]]);
  const unprojected = () => projection.unprojected(required, { mayBeTruncated: true });
  expect([await unprojected(), await projection.unprojected(required)]).toEqual([undefined, 'g on t/0']);
  given.ends = [4];
  expect(await unprojected()).toBe('g on t/0');
  given.ends = [NO_LEADER];
  expect(await unprojected()).toBe('g on t/0');
  const failing = watch({ ...log, endOffset: () => Promise.reject(new Error('a bug')) });
  await expect(failing.unprojected(required, { mayBeTruncated: true })).rejects.toThrow('a bug');
  given.ends = [2];
  expect(await projection.unprojected(new Map([[0, { offset: 1 }]]))).toBeUndefined();
});

test('a commit with an older leader epoch than a required record is from before a truncation', async () => {
  const { projection, state } = aLog({ ends: [5], commits: [5] });
  const unprojected = (leaderEpoch?: number | null) =>
    projection.unprojected(new Map([[0, { offset: 5, ...(leaderEpoch !== undefined && { leaderEpoch }) }]]));
  expect(await unprojected(3)).toBeUndefined();
  state.tables = ['any'];
  state.epoch = 2;
  const found = [await unprojected(1), await unprojected(2), await unprojected(3), await unprojected(null)];
  expect([...found, await unprojected()]).toEqual([undefined, undefined, 'g on t/0', undefined, undefined]);
});

test('does not read the UUID of a table that no commit names, and stops to poll after the deadline', async () => {
  const { log, state } = aLog({ ends: [5], commits: [5] });
  await watch(log, () => Promise.reject(new Error('not read here'))).caughtUp('all');
  state.commits = [4];
  let ms = 0;
  const clock = { now: () => (ms += 120_000) };
  const late = watchProjection({ log, clock, group: 'g', topic: 't' });
  await expect(late.caughtUp('all', 60_000)).rejects.toBeInstanceOf(Unavailable);
});

test.each(['events', 'sessions', 'reports', 'links'] as const)(
  'watches the group, the topic, and the table of %s',
  async (source) => {
    const { group, topic, table } = PROJECTED[source];
    const { log, state } = aLog({ ends: [5], commits: [5] });
    const asked: string[] = [];
    const committed: Log['committed'] = async (...of) => {
      asked.push(...of);
      return await log.committed(...of);
    };
    const projections = watchProjections({ ...log, committed } as Log, async (name) => `${name} of now`);
    state.tables = [`${table} of now`];
    await projections[source].caughtUp('all');
    expect(asked).toEqual([group, topic]);
  },
);

test('waits at most a second for the linker, for forwarded reports, and then for the links', async () => {
  const { log } = aLog({ ends: [5], commits: [5] });
  const waits: unknown[] = [];
  const committed: Log['committed'] = async (...of) => {
    waits.push(of.join());
    return await log.committed(...of);
  };
  let failure: Error | undefined;
  const caughtUp = async (_: unknown, limitMs = -1): Promise<void> => {
    waits.push(limitMs > 0 && limitMs <= 1_000);
    if (failure !== undefined) throw failure;
  };
  const wait = watchLinks({ ...log, committed } as Log, { caughtUp } as unknown as Projection);
  await wait('all');
  const [events, reports] = [TOPICS.events, TOPICS.reportLinks].map((topic) => `${GROUPS.link},${topic}`);
  expect(waits).toEqual([events, reports, reports, true]);
  failure = new Unavailable('not caught up');
  await wait('all');
  failure = new Error('a bug');
  await expect(wait('all')).rejects.toThrow('a bug');
});

const NO_LEADER = -1;

type AskedLog = Parameters<typeof watchProjection>[0]['log'];

function watch(log: AskedLog, tableNow?: () => Promise<string>): Projection {
  return watchProjection({
    log,
    clock: systemClock,
    group: 'g',
    topic: 't',
    ...(tableNow && { table: { name: 'rows', uuid: tableNow } }),
  });
}

/** Returns a log with the offsets that the test sets. */
function aLog(
  given: { ends: number[]; commits: (number | undefined)[]; starts?: number[] },
  onEnds: () => unknown = () => undefined,
) {
  const state = { commits: given.commits, polls: 0, tables: [] as (string | undefined)[], epoch: 0 };
  const asked = { endOffsets: 0, committed: 0, offsetRanges: 0 };
  const log: AskedLog = {
    endOffsets: async () => {
      asked.endOffsets += 1;
      onEnds();
      if (given.ends.includes(NO_LEADER)) throw new Unavailable('a partition has no leader');
      return [...given.ends];
    },
    endOffset: async (_, partition) => {
      asked.endOffsets += 1;
      onEnds();
      const end = given.ends[partition] ?? NO_LEADER;
      if (end === NO_LEADER) throw new Unavailable('the partition has no leader');
      return end;
    },
    offsetRanges: async () => {
      asked.offsetRanges += 1;
      return given.ends.map((endOffset, partition) =>
        endOffset === NO_LEADER ? undefined : { startOffset: given.starts?.[partition] ?? 0, endOffset },
      );
    },
    committed: async () => {
      asked.committed += 1;
      state.polls += 1;
      await new Promise(setImmediate);
      return state.commits.map((offset, partition): Committed | undefined => {
        const tables = state.tables[partition];
        const metadata = tables === undefined ? '' : JSON.stringify({ tables, upToEpoch: state.epoch });
        return offset === undefined ? undefined : { offset, metadata };
      });
    },
  };
  return { log, projection: watch(log), asked, state };
}
