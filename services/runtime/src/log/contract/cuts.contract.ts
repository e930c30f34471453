/** The contract of a log that lost its last records: every reader is told once, and goes on with what is there now. */
import { describe, expect, it } from 'vitest';
import { LogTruncated } from '../log.ts';
import { aHolder, aName, aRecord, aTopic, nextRecords, type Subject, textOf, untilHolds } from './harness.ts';

export function describeCuts({ harness, log }: Subject): void {
  const { cut } = harness;
  if (cut === undefined) {
    it('tells every reader of a cut', (context) => context.skip('this harness cannot cut the log'));
    return;
  }
  const aReader = async (group: string, topic: string) => {
    const holder = await aHolder(log(), group, topic);
    await untilHolds(holder, 1);
    return { holder, owned: holder.current(0) };
  };
  const read = async (owned: Awaited<ReturnType<typeof aReader>>['owned'], topic: string) =>
    (await nextRecords(owned, topic)).map(textOf);
  const records = (...texts: string[]) => texts.map((text) => aRecord(text));

  describe('a log that was cut short', () => {
    it.each([
      ['has not grown again', ['x'], [1, 2]],
      ['has grown past where it ended', ['x', 'y', 'z', '!'], [1, 5]],
    ])('tells a member of a group once, when it %s', async (_, later, [offset, end]) => {
      const topic = await aTopic(log());
      await log().append(topic, 0, records('a', 'b', 'c'));
      const { holder, owned } = await aReader(aName('group'), topic);
      expect(await read(owned, topic)).toEqual(['a', 'b', 'c']);
      await cut(log(), topic, 0, 1);
      await log().append(topic, 0, records(...later));
      const failure = await nextRecords(owned, topic).catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(LogTruncated);
      expect(failure).toMatchObject({ topic, partition: 0, offset, position: 3 });
      expect(owned.position(topic)).toBe(offset);
      expect(await read(owned, topic)).toEqual(later);
      expect(owned.position(topic)).toBe(end);
      await holder.consumer.stop();
    });

    it('tells nobody who has not read as far as the cut', async () => {
      const topic = await aTopic(log());
      await log().append(topic, 0, records('a', 'b', 'c'));
      const { holder, owned } = await aReader(aName('group'), topic);
      expect((await owned.read({ maxRecords: 1, maxBytes: 1, waitMs: 5_000 }))?.nextOffset).toBe(1);
      await cut(log(), topic, 0, 1);
      await log().append(topic, 0, records('x'));
      expect(await read(owned, topic)).toEqual(['x']);
      await holder.consumer.stop();
    });

    it('takes a commit of what was read before, and tells whoever comes back to it', async () => {
      const [topic, group] = [await aTopic(log()), aName('group')];
      await log().append(topic, 0, records('a', 'b', 'c'));
      const first = await aReader(group, topic);
      expect(await read(first.owned, topic)).toEqual(['a', 'b', 'c']);
      await cut(log(), topic, 0, 1);
      await first.owned.commit(topic, { offset: 3, metadata: 'read' });
      await first.holder.consumer.stop();
      const { holder, owned } = await aReader(group, topic);
      expect(owned.committed(topic)).toEqual({ offset: 3, metadata: 'read' });
      await owned.commit(topic, { offset: 3, metadata: 'again' });
      await expect(nextRecords(owned, topic)).rejects.toMatchObject({ offset: 1, position: 3 });
      await log().append(topic, 0, records('x'));
      expect(await read(owned, topic)).toEqual(['x']);
      await holder.consumer.stop();
    });

    it('tells whoever seeks beyond its end', async () => {
      const topic = await aTopic(log());
      await log().append(topic, 0, records('a'));
      const { holder, owned } = await aReader(aName('group'), topic);
      owned.seek(topic, 7);
      await expect(nextRecords(owned, topic)).rejects.toMatchObject({ offset: 1, position: 7 });
      await log().append(topic, 0, records('b'));
      expect(await read(owned, topic)).toEqual(['b']);
      await holder.consumer.stop();
    });

    it.each([
      ['has not grown again', ['x']],
      ['has grown past where it ended', ['x', 'y', 'z']],
    ])('tells a tail, which goes on with what is there now, when it %s', async (_, later) => {
      const topic = await aTopic(log(), { partitions: 2 });
      await log().append(topic, 1, records('a', 'b'));
      const seen: unknown[] = [];
      const tail = await log().tail({
        topic,
        from: 'earliest',
        onBatch: (batch) => void seen.push(...batch.records.map(textOf)),
        onTruncated: (partition, offset) => void seen.push({ partition, offset }),
      });
      await tail.reached([0, 2]);
      await cut(log(), topic, 1, 1);
      await log().append(topic, 1, records(...later));
      // Others wait with it: a position that lies before the cut is reached at once.
      while (seen.at(-1) !== later.at(-1)) await tail.reached([0, 1]).then(() => log().endOffsets(topic));
      expect(seen).toEqual(['a', 'b', { partition: 1, offset: 1 }, ...later]);
      await tail.reached([0, 1 + later.length]);
      await tail.close();
    });
  });
}
