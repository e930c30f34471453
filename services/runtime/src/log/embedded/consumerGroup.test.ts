/** Consumer groups of the embedded log: assignment, fair reads, and owners that hang. */
import { expect, it } from 'vitest';
import { Fenced } from '../../process/errors.ts';
import { aMember, aRecord, nextRecords, textOf, untilAssigned, untilLost } from '../contract/harness.ts';
import { aLog, topicSpec } from './testing/testLog.ts';

it('assigns partition p to member p mod n in the order of joining', async () => {
  const log = await aLog();
  await log.ensureTopics([topicSpec('t', { partitions: 5 })]);
  const first = await aMember(log, 'group', 't');
  const second = await aMember(log, 'group', 't');
  await Promise.all([untilAssigned(first, 3), untilAssigned(second, 2)]);
  expect([first.consumer.assigned(), second.consumer.assigned()]).toEqual([
    [0, 2, 4],
    [1, 3],
  ]);
  await first.consumer.stop();
  await untilAssigned(second, 5);
  expect(second.owned.map((owned) => owned.partition)).toEqual([1, 3, 0, 2, 4]);
});

it('alternates between topics, even if one is far behind', async () => {
  const log = await aLog();
  await log.ensureTopics([topicSpec('long'), topicSpec('short')]);
  await log.append(
    'long',
    0,
    Array.from({ length: 10 }, (_, index) => aRecord(`long ${index}`)),
  );
  await log.append('short', 0, [aRecord('short 0'), aRecord('short 1')]);
  const member = await aMember(log, 'group', 'long', 'short');
  await untilAssigned(member, 1);
  const topics: string[] = [];
  for (let count = 0; count < 6; count += 1) {
    const batch = await member.current(0).read({ maxRecords: 1, maxBytes: 1000, waitMs: 0 });
    topics.push(batch?.topic ?? 'nothing');
  }
  expect(topics.slice(0, 4).sort()).toEqual(['long', 'long', 'short', 'short']);
  expect(topics.slice(4)).toEqual(['long', 'long']);
});

it('fences an owner that does not release a partition in time and rejects its commit', async () => {
  const log = await aLog({ revokeWaitMs: 20 });
  await log.ensureTopics([topicSpec('t')]);
  await log.append('t', 0, [aRecord('a')]);
  const hanging = Promise.withResolvers<void>();
  const outcome = Promise.withResolvers<unknown>();
  const first = await log.consume({
    group: 'group',
    topics: ['t'],
    process: async (owned) => {
      await untilLost(owned);
      await hanging.promise;
      outcome.resolve(await owned.commit('t', { offset: 1, metadata: 'late' }).catch((error) => error));
    },
  });
  await expect.poll(() => first.assigned()).toEqual([0]);
  await first.stop();
  const second = await aMember(log, 'group', 't');
  await untilAssigned(second, 1);
  hanging.resolve();
  expect(await outcome.promise).toBeInstanceOf(Fenced);
  expect(await log.committed('group', 't')).toEqual([undefined]);
});

it('accepts the last commit of an owner while the partition moves', async () => {
  const log = await aLog();
  await log.ensureTopics([topicSpec('t', { partitions: 2 })]);
  await log.append('t', 1, [aRecord('a'), aRecord('b')]);
  const first = await log.consume({
    group: 'group',
    topics: ['t'],
    process: async (owned) => {
      await untilLost(owned);
      if (owned.partition === 1) await owned.commit('t', { offset: 1, metadata: 'handed over' });
    },
  });
  await expect.poll(() => first.assigned()).toEqual([0, 1]);
  const second = await aMember(log, 'group', 't');
  await untilAssigned(second, 1);
  const owned = second.current(1);
  expect(owned.committed('t')).toEqual({ offset: 1, metadata: 'handed over' });
  expect((await nextRecords(owned)).map(textOf)).toEqual(['b']);
});

it('accepts other topics for a group only after all members have left', async () => {
  const log = await aLog();
  await log.ensureTopics([topicSpec('t'), topicSpec('u')]);
  const first = await aMember(log, 'group', 't');
  await expect(aMember(log, 'group', 'u')).rejects.toThrow('consumes t, not u');
  await first.consumer.stop();
  const second = await aMember(log, 'group', 'u');
  await untilAssigned(second, 1);
});

it('ends the wait of a read when records are appended', async () => {
  const log = await aLog();
  await log.ensureTopics([topicSpec('t'), topicSpec('u')]);
  const member = await aMember(log, 'group', 't', 'u');
  await untilAssigned(member, 1);
  const reading = member.current(0).read({ maxRecords: 1, maxBytes: 1, waitMs: 600_000 });
  await expect(member.current(0).read({ maxRecords: 1, maxBytes: 1, waitMs: 0 })).rejects.toThrow(
    'already reading',
  );
  await log.append('u', 0, [aRecord('a')]);
  expect((await reading)?.records.map(textOf)).toEqual(['a']);
});
