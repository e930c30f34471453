/** Tests a projector that was paused while another projector took over its partition. */
import { randomUUID } from 'node:crypto';
import { systemClock } from '@questlog/runtime/process/clock';
import { Fenced } from '@questlog/runtime/process/errors';
import { ALL_VISIBLE } from '@questlog/schemas/erased';
import { aLinkedEvent, aReportLink } from '@questlog/schemas/fixtures/builders';
import { expect, test } from 'vitest';
import { openLinksWriter } from './linksWriter.ts';
import { openReportsWriter } from './writer.ts';

// The rows were erased during the pause. The new owner knew the erasure. This projector did not know it when it planned the
// rows.
test.each([
  ['links', openLinksWriter, aLinkedEvent()],
  ['reports', openReportsWriter, aReportLink()],
] as const)(
  'a projector that lost its partition after planning does not write %s',
  async (_, open, message) => {
    const inserts: unknown[] = [];
    const writer = open({
      store: { query: async () => [], insert: async (insert: unknown) => void inserts.push(insert) },
      codec: { decode: async () => message },
      deadLetters: { countProcessed: () => {} },
      clock: systemClock,
      visible: ALL_VISIBLE,
      ...{ logId: randomUUID(), partition: 0, partitions: 1, orphanIds: [], onOutcome: () => {} },
    } as never);
    const plan = await writer.plan({
      records: [{ offset: 0, value: Buffer.alloc(0) }],
      start: 0,
      end: 1,
    } as never);
    const confirm = async () => Promise.reject(new Fenced('the partition is another’s'));
    await expect(writer.apply(plan, { verify: false, confirm })).rejects.toThrow(Fenced);
    expect(inserts).toEqual([]);
  },
);
