/** Contract tests for a truncated log. Every affected reader receives one `LogTruncated` and then the current records. */
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
    if (harness.truncate === undefined) throw new Error('this harness cannot truncate the log');
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
  /** The first append after a truncation can fail, because Kafka can lose the producer's state. */
  const append = async (topic: string, partition: number, ...texts: string[]) => {
    for (const text of texts) {
      const appendOne = () => log().append(topic, partition, [aRecord(text)]);
      await appendOne().catch((error: unknown) =>
        error instanceof Unavailable ? appendOne() : Promise.reject(error),
      );
    }
  };

  describe('a truncated log', () => {
    it.each([
      ['has fewer records than before', ['x'], [1, 2]],
      ['has more records than before', ['x', 'y', 'z', '!'], [1, 5]],
    ])('throws LogTruncated once to a group member when it %s', async (_, later, [offset, end]) => {
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

    it('throws LogTruncated only to readers of lost records and delivers all current records', async () => {
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
      const truncation = { offset: 1 };
      expect([['x'], ['b', truncation, 'x'], ['b', 'c', truncation, 'x']]).toContainEqual(seen);
      await member.consumer.stop();
    });

    it('accepts a commit of records read before the truncation and reports it to the next owner', async () => {
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
     * After a truncation, the log can grow again until its end offset is higher than a reader's position. Only the leader epoch
     * then shows the truncation. The embedded log needs no leader epochs. One file contains the records and the committed
     * offsets, so a restore replaces both together.
     */
    it('is detected by the leader epoch of the position if it has more records than before', async () => {
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

    it('throws LogTruncated after a seek beyond the end', async () => {
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
      ['has fewer records than before', ['x']],
      ['has more records than before', ['x', 'y', 'z']],
    ])('is reported to a tail, which continues with the current records, when it %s', async (_, later) => {
      const topic = await aTopic(log(), { partitions: 2 });
      await append(topic, 1, 'a', 'b');
      const seen: unknown[] = [];
      const tail = await log().tail({
        topic,
        from: 'earliest',
        onBatch: (batch) => void seen.push(...batch.records.map(textOf)),
        onTruncated: ({ partition, offset }) => void seen.push({ partition, offset }),
      });
      await tail.waitForOffsets([0, 2]);
      await truncate(topic, 1, 1);
      await append(topic, 1, ...later);
      await tail.waitForOffsets([0, 1]);
      await until(() => seen.at(-1) === later.at(-1));
      expect(seen).toEqual(['a', 'b', { partition: 1, offset: 1 }, ...later]);
      await tail.waitForOffsets([0, 1 + later.length]);
      await tail.close();
    });
  });
}
