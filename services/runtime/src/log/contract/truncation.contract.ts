/** The contract of a log that lost its last records: every reader is told once, and goes on with what is there now. */
import { describe, expect, it } from 'vitest';
import { Unavailable } from '../../process/errors.ts';
import { LogTruncated, type OwnedPartition } from '../log.ts';
import {
  aMember,
  aName,
  aRecord,
  aTopic,
  nextRecords,
  type Subject,
  textOf,
  until,
  untilAssigned,
} from './harness.ts';

export function describeTruncation({ harness, log }: Subject): void {
  const truncate = async (topic: string, partition: number, offset: number) => {
    if (harness.truncate === undefined) throw new Error('this harness cannot cut the log');
    await harness.truncate(log(), topic, partition, offset);
  };
  const aReader = async (group: string, topic: string) => {
    const member = await aMember(log(), group, topic);
    await untilAssigned(member, 1);
    return { member, owned: member.current(0) };
  };
  const read = async (owned: OwnedPartition, topic: string, count: number) => {
    const texts: unknown[] = [];
    while (texts.length < count) texts.push(...(await nextRecords(owned, topic)).map(textOf));
    return texts;
  };
  /** Each by itself, as a log may only be cut between appends. What was cut may have forgotten its writers, and say so once. */
  const append = async (topic: string, partition: number, ...texts: string[]) => {
    for (const text of texts) {
      const appendOne = () => log().append(topic, partition, [aRecord(text)]);
      await appendOne().catch((error: unknown) =>
        error instanceof Unavailable ? appendOne() : Promise.reject(error),
      );
    }
  };

  describe('a log that was cut short', () => {
    it.each([
      ['has not grown again', ['x'], [1, 2]],
      ['has grown past where it ended', ['x', 'y', 'z', '!'], [1, 5]],
    ])('tells a member of a group once, when it %s', async (_, later, [offset, end]) => {
      const topic = await aTopic(log());
      await append(topic, 0, 'a', 'b', 'c');
      const { member, owned } = await aReader(aName('group'), topic);
      expect(await read(owned, topic, 3)).toEqual(['a', 'b', 'c']);
      await truncate(topic, 0, 1);
      await append(topic, 0, ...later);
      const failure = await nextRecords(owned, topic).catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(LogTruncated);
      expect(failure).toMatchObject({ topic, partition: 0, offset, position: 3 });
      expect(owned.position(topic)).toBe(offset);
      expect(await read(owned, topic, later.length)).toEqual(later);
      expect(owned.position(topic)).toBe(end);
      await member.consumer.stop();
    });

    it('tells only who was given what is gone, and nobody misses what is there now', async () => {
      const topic = await aTopic(log());
      await append(topic, 0, 'a', 'b', 'c');
      const { member, owned } = await aReader(aName('group'), topic);
      expect((await owned.read({ maxRecords: 1, maxBytes: 1, waitMs: 5_000 }))?.nextOffset).toBe(1);
      await truncate(topic, 0, 1);
      await append(topic, 0, 'x');
      const seen: unknown[] = [];
      while (seen.at(-1) !== 'x') {
        const batch = read(owned, topic, 1).catch((error: unknown) =>
          error instanceof LogTruncated ? [{ offset: error.offset }] : Promise.reject(error),
        );
        seen.push(...(await batch));
      }
      // A log may read ahead for its readers.
      const truncation = { offset: 1 };
      expect([['x'], ['b', truncation, 'x'], ['b', 'c', truncation, 'x']]).toContainEqual(seen);
      await member.consumer.stop();
    });

    it('takes a commit of what was read before, and tells whoever comes back to it', async () => {
      const [topic, group] = [await aTopic(log()), aName('group')];
      await append(topic, 0, 'a', 'b', 'c');
      const first = await aReader(group, topic);
      expect(await read(first.owned, topic, 3)).toEqual(['a', 'b', 'c']);
      await truncate(topic, 0, 1);
      await first.owned.commit(topic, { offset: 3, metadata: 'read' });
      await first.member.consumer.stop();
      const { member, owned } = await aReader(group, topic);
      expect(owned.committed(topic)).toEqual({ offset: 3, metadata: 'read' });
      await owned.commit(topic, { offset: 3, metadata: 'again' });
      await expect(nextRecords(owned, topic)).rejects.toMatchObject({ offset: 1, position: 3 });
      await append(topic, 0, 'x');
      expect(await read(owned, topic, 1)).toEqual(['x']);
      await member.consumer.stop();
    });

    /**
     * No offset tells then. A log with leader epochs tells who names the one of its position. The embedded log has none: its
     * commits stand in the file of its records, so that an older copy of it has the commits of that time; and whoever must be
     * sure compares the record itself (`findTruncation`).
     */
    it('tells whoever comes back when it has grown past where it ended, by the leader epoch of the position', async () => {
      const [topic, group] = [await aTopic(log()), aName('group')];
      await append(topic, 0, 'a', 'b', 'c');
      const first = await aReader(group, topic);
      let epoch: number | undefined;
      while (first.owned.position(topic) < 3)
        epoch = (await first.owned.read({ topic, maxRecords: 3, maxBytes: 1000, waitMs: 5_000 }))
          ?.leaderEpoch;
      await first.owned.commit(topic, { offset: 3, metadata: 'read' });
      await first.member.consumer.stop();
      await truncate(topic, 0, 1);
      const later = ['x', 'y', 'z', '!'];
      await append(topic, 0, ...later);
      const { member, owned } = await aReader(group, topic);
      expect(owned.position(topic)).toBe(3);
      owned.seek(topic, 3, epoch);
      if (epoch === undefined) {
        expect(await read(owned, topic, 2)).toEqual(later.slice(2));
      } else {
        const failure = await nextRecords(owned, topic).catch((error: unknown) => error);
        expect(failure).toBeInstanceOf(LogTruncated);
        expect(failure).toMatchObject({ topic, partition: 0, offset: 1, position: 3 });
        expect(await read(owned, topic, later.length)).toEqual(later);
      }
      await member.consumer.stop();
    });

    it('tells whoever seeks beyond its end', async () => {
      const topic = await aTopic(log());
      await append(topic, 0, 'a');
      const { member, owned } = await aReader(aName('group'), topic);
      owned.seek(topic, 7);
      await expect(nextRecords(owned, topic)).rejects.toMatchObject({ offset: 1, position: 7 });
      await append(topic, 0, 'b');
      expect(await read(owned, topic, 1)).toEqual(['b']);
      await member.consumer.stop();
    });

    it.each([
      ['has not grown again', ['x']],
      ['has grown past where it ended', ['x', 'y', 'z']],
    ])('tells a tail, which goes on with what is there now, when it %s', async (_, later) => {
      const topic = await aTopic(log(), { partitions: 2 });
      await append(topic, 1, 'a', 'b');
      const seen: unknown[] = [];
      const tail = await log().tail({
        topic,
        from: 'earliest',
        onBatch: (batch) => void seen.push(...batch.records.map(textOf)),
        onTruncated: (partition, offset) => void seen.push({ partition, offset }),
      });
      await tail.waitForOffsets([0, 2]);
      await truncate(topic, 1, 1);
      await append(topic, 1, ...later);
      // Others wait with it: a position that lies before the cut is reached at once.
      await tail.waitForOffsets([0, 1]);
      await until(() => seen.at(-1) === later.at(-1));
      expect(seen).toEqual(['a', 'b', { partition: 1, offset: 1 }, ...later]);
      await tail.waitForOffsets([0, 1 + later.length]);
      await tail.close();
    });
  });
}
