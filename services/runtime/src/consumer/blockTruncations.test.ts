/** Tests a log that is truncated while it is projected. Rows of lost records stay visible, and new records are written. */
import { APPEND_ID_HEADER } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { OwnedPartition } from '../log/log.ts';
import { lastRecordOf, leaderEpochOf } from '../log/projection/commitMetadata.ts';
import { withMethods } from '../log/testing/alteredLog.ts';
import { Fenced, Invalid, Unavailable } from '../process/errors.ts';
import { WITHIN_MS } from './testing/readDrivenClock.ts';
import { aProjection, GROUP, TOPIC } from './testing/truncatedProjection.ts';

const crash = (): never => {
  throw new Error('crash');
};

test.each(['runs', 'is down'])(
  'after a truncation while the consumer %s, current records have rows, lost records keep theirs, and it is logged',
  async (when) => {
    const projection = await aProjection();
    const { log, tables, cuts: truncations, said: logged, append } = projection;
    await append('a', 'b', 'c', 'd');
    await projection.run();
    const running = when === 'runs' ? await projection.start() : undefined;
    await log.truncate(TOPIC, 0, 1);
    await append('B', 'C', 'D', 'E', 'F');
    if (running === undefined) await projection.run();
    else await expect.poll(projection.committed, { timeout: WITHIN_MS }).toBe(6);
    await running?.stop();
    expect(tables.names()).toEqual(['a', 'B', 'C', 'D', 'E', 'F']);
    expect(tables.moved.map(({ name }) => name)).toEqual(['b', 'c', 'd']);
    expect(truncations).toEqual([{ cut: { offset: 1, end: 4, lost: 'd' }, records: 3 }]);
    expect(logged).toContainEqual([
      'log_truncated',
      { topic: TOPIC, partition: 0, offset: 1, end: 4, records: 3 },
    ]);
    expect(tables.begun).toBeUndefined();
  },
);

test.each([1, 3])(
  'stores the remaining records of a half-written block exactly once after a truncation at %i',
  async (at) => {
    const projection = await aProjection();
    const { log, tables, append } = projection;
    await append('a', 'b');
    await projection.run();
    await append('c', 'd', 'e');
    tables.beforeRow = (name) => (name === 'e' ? crash() : undefined);
    await expect(projection.run()).rejects.toThrow('crash');
    tables.beforeRow = () => {};
    await log.truncate(TOPIC, 0, at);
    await append('F', 'G', 'H', 'I');
    await projection.run();
    const kept = ['a', 'b', 'c', 'd', 'e'].slice(0, at);
    expect(tables.names()).toEqual([...kept, 'F', 'G', 'H', 'I']);
    expect(tables.moved.map(({ name }) => name)).toEqual(['b', 'c', 'd'].slice(at - 1));
  },
);

test('repeats an interrupted repair before anything else', async () => {
  const projection = await aProjection();
  const { log, tables, append } = projection;
  await append('a', 'b', 'c');
  await projection.run();
  await log.truncate(TOPIC, 0, 1);
  await append('B', 'C', 'D');
  tables.amidRepair = crash;
  await expect(projection.run()).rejects.toThrow('crash');
  tables.amidRepair = () => {};
  await append('E');
  await projection.run();
  expect(tables.repairs).toEqual([1, 2].map(() => ({ offset: 1, end: 3, lost: 'c' })));
  expect(tables.names()).toEqual(['a', 'B', 'C', 'D', 'E']);
  expect(projection.cuts).toHaveLength(1);
});

test('waits with a repair until ClickHouse is available, and does not repair a lost partition', async () => {
  const projection = await aProjection();
  const { log, tables, append } = projection;
  await append('a', 'b');
  await projection.run();
  await log.truncate(TOPIC, 0, 1);
  await append('B', 'C');
  let isUnavailable = true;
  tables.amidRepair = () => {
    if (!isUnavailable) return;
    isUnavailable = false;
    throw new Unavailable('ClickHouse is away');
  };
  const requested = Promise.withResolvers<void>();
  const consumer = await projection.start((owned) =>
    withMethods(owned, {
      commit: async () => {
        requested.resolve();
        throw new Fenced('the partition is another’s');
      },
    }),
  );
  await requested.promise;
  await consumer.stop();
  expect(tables.repairs).toEqual([]);
  await projection.run();
  expect(isUnavailable).toBe(false);
  expect(tables.names()).toEqual(['a', 'B', 'C']);
});

/**
 * Returns a function that changes a partition so that all its batches have this leader epoch. Records the partition's seeks
 * with their epochs.
 */
function onEpoch(epoch: number) {
  const seeks: (number | undefined)[][] = [];
  const onAnEpoch = (owned: OwnedPartition): OwnedPartition =>
    withMethods(owned, {
      seek: (topic, offset, leaderEpoch) => {
        seeks.push([offset, leaderEpoch]);
        owned.seek(topic, offset);
      },
      read: async (options) => {
        const batch = await owned.read(options);
        return batch && { ...batch, leaderEpoch: epoch };
      },
    });
  return { seeks, onAnEpoch };
}

test('passes the leader epoch of the last written record to the log, which compares it with its own', async () => {
  const projection = await aProjection();
  const { tables, append } = projection;
  const { seeks, onAnEpoch } = onEpoch(5);
  await append('a', 'b');
  await projection.run(onAnEpoch);
  seeks.length = 0;
  await append('c', 'd');
  tables.beforeRow = (name) => (name === 'd' ? crash() : undefined);
  await expect(projection.run(onAnEpoch)).rejects.toThrow('crash');
  expect(seeks).toContainEqual([2, 5]);
  seeks.length = 0;
  tables.beforeRow = () => {};
  await append('e');
  await projection.run(onAnEpoch);
  // The pending block is read by offset alone. The read after the block uses the leader epoch of the block's last record.
  expect(seeks).toContainEqual([4, 5]);
  expect(seeks).not.toContainEqual([2, 5]);
  expect(tables.names()).toEqual(['a', 'b', 'c', 'd', 'e']);
});

test('does not report a truncation if a marker has a newer leader epoch than the last record', async () => {
  const projection = await aProjection();
  const { log, tables } = projection;
  const producer = await log.transactionalProducer('a writer');
  const records = [{ key: null, value: Buffer.from('a'), headers: { [APPEND_ID_HEADER]: 'a' } }];
  await producer.commit({ appends: [{ topic: TOPIC, partition: 0, records }] });
  tables.rows.push({ offset: 0, name: 'a' });
  const note = { last: { offset: 0, id: 'a', leaderEpoch: 5 } };
  const before = await log.consume({
    group: GROUP,
    topics: [TOPIC],
    process: (owned) => owned.commit(TOPIC, { offset: 1, metadata: JSON.stringify(note) }),
  });
  await expect.poll(projection.committed).toBe(1);
  await before.stop();
  await projection.run(onEpoch(6).onAnEpoch);
  const [committed] = await log.committed(GROUP, TOPIC);
  expect(lastRecordOf(committed)).toEqual({ ...note.last, leaderEpoch: 6 });
});

test('keeps the known leader epoch in the commit after a repaired truncation, where no last record is known', async () => {
  const projection = await aProjection();
  const { log, append } = projection;
  await append('a', 'b');
  await projection.run(onEpoch(5).onAnEpoch);
  await log.truncate(TOPIC, 0, 1);
  await projection.run();
  const [committed] = await log.committed(GROUP, TOPIC);
  expect(committed && [committed.offset, leaderEpochOf(committed)]).toEqual([1, 5]);
});

/** Commits metadata, for example of a pending block, at offset 0. */
async function announce(
  { log, committed }: Awaited<ReturnType<typeof aProjection>>,
  note: object,
): Promise<void> {
  const before = await log.consume({
    group: GROUP,
    topics: [TOPIC],
    process: (owned) => owned.commit(TOPIC, { offset: 0, metadata: JSON.stringify(note) }),
  });
  await expect.poll(committed).toBe(0);
  await before.stop();
}

test('ignores the lower end that a former leader reports while the pending block’s last record exists', async () => {
  const projection = await aProjection();
  const { log, tables, append } = projection;
  await append('a', 'b', 'c');
  await announce(projection, { pendingTo: 3, last: { offset: 2, id: 'c' } });
  const endOffset = vi.spyOn(log, 'endOffset').mockResolvedValueOnce(2);
  onTestFinished(() => endOffset.mockRestore());
  let isSlow = true;
  await projection.run((owned) =>
    withMethods(owned, {
      read: async (options) => {
        if (!isSlow || owned.position(TOPIC) !== 0) return await owned.read(options);
        isSlow = false;
        return undefined;
      },
    }),
  );
  expect(endOffset).toHaveBeenCalled();
  expect([tables.names(), tables.repairs]).toEqual([['a', 'b', 'c'], []]);
});

test.each([
  ['none', []],
  ['others', ['x', 'y', 'z']],
])(
  'repairs a log that is truncated while a pending block is read again (new records at its offsets: %s)',
  async (_, since) => {
    const projection = await aProjection();
    const { log, tables, append } = projection;
    const names = ['a', 'b', 'c', 'd', 'e'];
    await append(...names);
    tables.rows.push(...names.map((name, offset) => ({ offset, name })));
    await announce(projection, { pendingTo: 5, last: { offset: 4, id: 'e' } });
    let is: 'compared' | 'read again' | 'read in part' | 'cut' = 'compared';
    const consumer = await projection.start((owned) =>
      withMethods(owned, {
        read: async (options) => {
          // The log is complete during the comparison. The log is truncated after the first two records are read again.
          if (is === 'compared' && owned.position(TOPIC) === 0) is = 'read again';
          if (is === 'compared' || is === 'cut') return await owned.read(options);
          if (is === 'read again') {
            is = 'read in part';
            return await owned.read({ ...options, maxRecords: 2 });
          }
          is = 'cut';
          await log.truncate(TOPIC, 0, 2);
          await append(...since);
          return undefined;
        },
      }),
    );
    const there = expect.poll(() => [tables.names(), tables.moved.map(({ name }) => name)], {
      timeout: WITHIN_MS,
    });
    await Promise.race([
      there.toEqual([
        ['a', 'b', ...since],
        ['c', 'd', 'e'],
      ]),
      consumer.failed,
    ]).finally(() => consumer.stop());
  },
);

test.each([
  ['none', []],
  ['others', ['x']],
])(
  'repairs a log that is truncated after the search for truncations, without a commit (new records at its offsets: %s)',
  async (_, since) => {
    const projection = await aProjection();
    const { log, tables, append } = projection;
    await append('a', 'b');
    tables.rows.push({ offset: 0, name: 'a' }, { offset: 1, name: 'b' });
    tables.beforeVerification = async () => {
      tables.beforeVerification = async () => {};
      await log.truncate(TOPIC, 0, 1);
      await append(...since);
    };
    const consumer = await projection.start();
    onTestFinished(() => consumer.stop());
    await expect.poll(() => tables.moved, { timeout: WITHIN_MS }).toEqual([{ offset: 1, name: 'b' }]);
    await append('y');
    await expect.poll(() => tables.names(), { timeout: WITHIN_MS }).toEqual(['a', ...since, 'y']);
  },
);

test('repairs a log that loses records which were compared and are not read again yet', async () => {
  const projection = await aProjection();
  const { log, tables, append } = projection;
  const names = ['a', 'b', 'c', 'd', 'e'];
  await append(...names);
  tables.rows.push(...names.map((name, offset) => ({ offset, name })));
  let isCompared = false;
  tables.beforeVerification = async () => {
    isCompared = true;
  };
  await projection.run((owned) =>
    withMethods(owned, {
      read: async (options) => {
        if (!isCompared || owned.position(TOPIC) !== 0) return await owned.read(options);
        isCompared = false;
        const batch = await owned.read({ ...options, maxRecords: 2 });
        await log.truncate(TOPIC, 0, 3);
        await append('X', 'Y');
        return batch;
      },
    }),
  );
  expect(tables.names()).toEqual(['a', 'b', 'c', 'X', 'Y']);
  expect(tables.moved.map(({ name }) => name)).toEqual(['d', 'e']);
});

test('writes the rest of a pending block that was truncated, and the records after it', async () => {
  const projection = await aProjection();
  const { log, tables, append, committed } = projection;
  await append('a', 'b', 'c');
  await announce(projection, { pendingTo: 3 });
  const consumer = await projection.start((owned) =>
    withMethods(owned, {
      read: async (options) => {
        if (owned.position(TOPIC) !== 0 || (await log.endOffset(TOPIC, 0)) < 3)
          return await owned.read(options);
        await log.truncate(TOPIC, 0, 1);
        return undefined;
      },
    }),
  );
  onTestFinished(() => consumer.stop());
  await Promise.race([expect.poll(committed, { timeout: WITHIN_MS }).toBe(1), consumer.failed]);
  await append('B');
  await Promise.race([expect.poll(committed, { timeout: WITHIN_MS }).toBe(2), consumer.failed]);
  expect(tables.names()).toEqual(['a', 'B']);
});

test('repairs a truncation only after an insert of the previous owner can no longer take effect', async () => {
  const projection = await aProjection({ insertsEndWithinMs: 20 });
  const { log, tables, append } = projection;
  await append('a', 'b');
  tables.rows.push({ offset: 0, name: 'a' });
  await announce(projection, { pendingTo: 2, last: { offset: 1, id: 'b' } });
  tables.lateRows.push({ offset: 1, name: 'b' });
  await log.truncate(TOPIC, 0, 1);
  await append('B');
  await projection.run();
  expect([tables.lateRows, tables.moved]).toEqual([[], [{ offset: 1, name: 'b' }]]);
  expect(tables.names()).toEqual(['a', 'B']);
});

test.each(['without a commit', 'with a pending block'])(
  'repairs a truncation only after an insert of the previous owner has ended, also after new commits (start %s)',
  async (start) => {
    const projection = await aProjection({ insertsEndWithinMs: 20 });
    const { log, tables, append } = projection;
    await append('a', 'b');
    if (start === 'with a pending block')
      await announce(projection, { pendingTo: 2, last: { offset: 1, id: 'b' }, token: 'start' });
    const consumer = await projection.start((owned) =>
      withMethods(owned, {
        commit: async (topic, committed) => {
          await owned.commit(topic, committed);
          if (committed.offset !== 2 || tables.names().includes('B')) return;
          await log.truncate(TOPIC, 0, 1);
          await append('B');
          tables.lateRows.push({ offset: 1, name: 'b' });
        },
      }),
    );
    onTestFinished(() => consumer.stop());
    await expect.poll(() => tables.names(), { timeout: WITHIN_MS }).toEqual(['a', 'B']);
    expect([tables.lateRows, tables.moved.map(({ name }) => name)]).toEqual([[], ['b', 'b']]);
  },
);

test.each(['rows', 'a dead letter'])(
  'repairs a truncation only after a failed insert of the same owner (%s) can no longer take effect',
  async (inserted) => {
    const projection = await aProjection({ insertsEndWithinMs: 20 });
    const { log, tables, clock, append } = projection;
    await append('a');
    const consumer = await projection.start();
    onTestFinished(() => consumer.stop());
    await expect.poll(projection.committed, { timeout: WITHIN_MS }).toBe(1);
    const failed = Promise.withResolvers<void>();
    const fail = (): never => {
      failed.resolve();
      throw new Unavailable('no answer in time');
    };
    tables.beforeRow = () => {
      if (inserted === 'rows') fail();
      throw new Invalid('rejected');
    };
    tables.beforeDeadLetter = () => {
      clock.advance(20);
      fail();
    };
    await append('b');
    await failed.promise;
    await log.truncate(TOPIC, 0, 1);
    await append('B');
    tables.lateRows.push({ offset: 1, name: 'b' });
    tables.beforeRow = () => {};
    tables.beforeDeadLetter = () => {};
    await expect.poll(() => tables.names(), { timeout: WITHIN_MS }).toEqual(['a', 'B']);
    const repaired = inserted === 'rows' ? ['b', 'b'] : ['b'];
    expect([tables.lateRows, tables.moved.map(({ name }) => name)]).toEqual([[], repaired]);
  },
);
