/** Contract tests for a consumer group with several members: partitions move between members without a loss of records. */
import { describe, expect, it } from 'vitest';
import { Fenced } from '../../process/errors.ts';
import type { Consumer } from '../log.ts';
import {
  aMember,
  aName,
  aRecord,
  aTopic,
  readUntilLost,
  type Subject,
  textOf,
  until,
  untilAssigned,
  untilLost,
} from './harness.ts';

export function describeRebalances({ log }: Subject): void {
  describe('group members', () => {
    it('share the partitions while members join and leave, without lost records', async () => {
      const [topic, group] = [await aTopic(log(), { partitions: 4 }), aName('group')];
      const seen = new Set<string | undefined>();
      const join = () =>
        log().consume({
          group,
          topics: [topic],
          process: (owned) =>
            readUntilLost(owned, async ({ records, nextOffset }) => {
              for (const record of records) seen.add(textOf(record));
              await owned.commit(topic, { offset: nextOffset, metadata: '' });
            }),
        });
      const produce = async (round: string) => {
        for (let count = 0; count < 40; count += 1) {
          await log().append(topic, count % 4, [aRecord(`${round} ${count}`)]);
        }
      };

      const first = await join();
      await Promise.all([produce('alone'), until(() => first.assigned().length === 4)]);
      const [second] = await Promise.all([join(), produce('joining')]);
      await until(() => first.assigned().length === 2 && second.assigned().length === 2);
      expect([...first.assigned(), ...second.assigned()].sort()).toEqual([0, 1, 2, 3]);
      await produce('together');
      await Promise.all([first.stop(), produce('leaving')]);
      await until(() => second.assigned().length === 4);
      await until(() => seen.size === 160);
      await until(async () => sum(await log().committed(group, topic)) === 160);
      await second.stop();
    });

    it('are assigned the same partition of every topic', async () => {
      const [left, right] = [await aTopic(log(), { partitions: 4 }), await aTopic(log(), { partitions: 4 })];
      const group = aName('group');
      const readers: Record<string, Set<string>> = {};
      const join = (member: string) =>
        log().consume({
          group,
          topics: [left, right],
          process: (owned) =>
            readUntilLost(owned, ({ topic, partition, records }) => {
              for (const record of records) {
                if (textOf(record) !== 'shared') continue;
                readers[`${topic}/${partition}`] ??= new Set();
                readers[`${topic}/${partition}`]?.add(member);
              }
            }),
        });
      const members: Consumer[] = [await join('first'), await join('second')];
      await until(() => members.every((member) => member.assigned().length === 2));
      for (const partition of [0, 1, 2, 3]) {
        await log().append(left, partition, [aRecord('shared')]);
        await log().append(right, partition, [aRecord('shared')]);
      }
      await until(() => Object.keys(readers).length === 8);
      for (const partition of [0, 1, 2, 3]) {
        expect(readers[`${left}/${partition}`]).toEqual(readers[`${right}/${partition}`]);
      }
      await Promise.all(members.map((member) => member.stop()));
    });

    it('cannot commit to a partition that another member owns', async () => {
      const [topic, group] = [await aTopic(log(), { partitions: 2 }), aName('group')];
      await Promise.all([0, 1].map((partition) => log().append(topic, partition, [aRecord('a')])));
      const first = await aMember(log(), group, topic);
      await untilAssigned(first, 2);
      const ownedBefore = [...first.owned];
      const second = await aMember(log(), group, topic);
      await Promise.all([untilAssigned(first, 1), untilAssigned(second, 1)]);

      const [moved = -1] = second.consumer.assigned();
      const old = ownedBefore.find((owned) => owned.partition === moved);
      expect(old?.signal.aborted).toBe(true);
      await expect(old?.commit(topic, { offset: 1, metadata: 'late' })).rejects.toBeInstanceOf(Fenced);
      expect((await log().committed(group, topic))[moved]).toBeUndefined();
      await second.current(moved).commit(topic, { offset: 1, metadata: 'mine' });
      await expect(old?.commit(topic, { offset: 0, metadata: 'late' })).rejects.toBeInstanceOf(Fenced);
      expect((await log().committed(group, topic))[moved]).toEqual({ offset: 1, metadata: 'mine' });
      expect(await old?.read({ maxRecords: 1, maxBytes: 1, waitMs: 60_000 })).toBeUndefined();
      await Promise.all([first.consumer.stop(), second.consumer.stop()]);
    });

    it('start at the last commit of the previous owner, including its final one', async () => {
      const [topic, group] = [await aTopic(log()), aName('group')];
      await log().append(topic, 0, [aRecord('a'), aRecord('b')]);
      let isOwned = false;
      const first = await log().consume({
        group,
        topics: [topic],
        process: async (owned) => {
          isOwned = true;
          await untilLost(owned);
          await owned.commit(topic, { offset: 1, metadata: 'handed over' });
        },
      });
      await until(() => isOwned);
      await first.stop();
      const second = await aMember(log(), group, topic);
      await untilAssigned(second, 1);
      expect(second.current(0).committed(topic)).toEqual({ offset: 1, metadata: 'handed over' });
      await second.consumer.stop();
    });
  });
}

function sum(committed: readonly ({ offset: number } | undefined)[]): number {
  return committed.reduce((total, one) => total + (one?.offset ?? 0), 0);
}
