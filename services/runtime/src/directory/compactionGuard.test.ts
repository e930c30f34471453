/** Tests that compaction keeps the correct directory, even if the last record of a key is an ineffective change. */
import { randomUUID } from 'node:crypto';
import { directoryEntry, entityKey, type Tenant } from '@questlog/schemas/topics/directoryEntry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Log } from '../log/log.ts';
import { withMethods } from '../log/testing/alteredLog.ts';
import { Unavailable } from '../process/errors.ts';
import { createCodec } from '../registry/registry.ts';
import { PREDECESSOR_HEADER } from './effectiveRecords.ts';
import type { DirectoryHandle } from './openDirectory.ts';
import { anEmptyTopic, aTenant, opened } from './testing/directoryBuilders.ts';

const SOON = { copyAfterMs: 20 };

test('compaction does not restore an ineffective creation that was answered with a conflict', async () => {
  const { log, registry } = await anEmptyTopic();
  const id = randomUUID();
  const first = await opened({ log, registry });
  const meanwhile = () => first.change('tenant', id, () => ({ entity: named(id, 'first'), answer: 201 }));
  const second = await opened({ log: beforeItsAppend(log, meanwhile), registry });
  const rejected = second.change('tenant', id, (known) => {
    if (known !== undefined) throw new Error('conflict');
    return { entity: named(id, 'second'), answer: 201 };
  });
  await expect(rejected).rejects.toThrow('conflict');
  await log.maintain();
  const later = await opened({ log, registry });
  expect(later.current.tenants.get(id)).toMatchObject({ name: 'first' });
});

test('compaction does not restore an ineffective change whose second decision was to write nothing', async () => {
  const { log, registry } = await anEmptyTopic();
  const id = randomUUID();
  const first = await opened({ log, registry });
  await first.put('tenant', id, named(id, 'there'));
  const meanwhile = () => first.change('tenant', id, () => ({ entity: null, answer: 204 }));
  const second = await opened({ log: beforeItsAppend(log, meanwhile), registry });
  const answer = await second.change('tenant', id, (known) =>
    known === undefined ? { answer: 404 } : { entity: named(id, 'second'), answer: 200 },
  );
  expect(answer).toBe(404);
  await log.maintain();
  const later = await opened({ log, registry });
  expect(later.current.tenants.get(id)).toBeUndefined();
});

test.each([
  { counts: 'counts', lost: 'lost' },
  { counts: 'counts', lost: null },
  { counts: null, lost: 'lost' },
])(
  'compaction does not restore an ineffective change whose process was killed: $counts, $lost',
  async ({ counts, lost }) => {
    const { log, registry } = await anEmptyTopic();
    const id = randomUUID();
    const append = await appender({ log, registry }, id);
    const first = await append('first', '');
    await append(counts, first);
    await append(lost, first);
    // All three processes detect the ineffective record at the same time. They stop appending copies after the repair.
    const three = [1, 2, 3].map(() => opened({ log, registry, ...SOON }));
    const unset = { limits: null, suspended: false };
    const expected = counts === null ? undefined : { ...aTenant(id), ...unset, name: counts };
    for (const { current } of await Promise.all(three)) expect(current.tenants.get(id)).toEqual(expected);
    await expect.poll(() => log.endOffsets(TOPICS.directory)).not.toEqual([3]);
    await log.maintain();
    const later = await opened({ log, registry });
    expect(later.current.tenants.get(id)).toEqual(expected);
  },
);

test('appends the copy of the effective record once the log is available', async () => {
  const { log, registry } = await anEmptyTopic();
  const id = randomUUID();
  const append = await appender({ log, registry }, id);
  await append('counts', '');
  await append('lost', '');
  let rejected = 0;
  const unavailable = withMethods(log, {
    append: async (...args) => {
      if (rejected++ < 2) throw new Unavailable('the log is away');
      return await log.append(...args);
    },
  });
  await opened({ log: unavailable, registry, ...SOON });
  await expect.poll(() => log.endOffsets(TOPICS.directory)).toEqual([3]);
  await log.maintain();
  const later = await opened({ log, registry });
  expect(later.current.tenants.get(id)).toMatchObject({ name: 'counts' });
});

test('a reader that starts after several ineffective changes finds the effective one', async () => {
  const { log, registry } = await anEmptyTopic();
  const id = randomUUID();
  const append = await appender({ log, registry }, id);
  const first = await append('first', '');
  const second = await append('second', first);
  const third = await append('third', second);
  await append('lost to the second', first);
  await log.maintain();
  await append('lost to the third', second);
  await append('fourth', third);
  const later = await opened({ log, registry });
  expect(later.current.tenants.get(id)).toMatchObject({ name: 'fourth' });
});

test('three processes that change, crash, and compact at random agree in the end', async () => {
  const { log, registry } = await anEmptyTopic();
  const step = fc.record({
    changes: fc.array(fc.record({ by: fc.nat(2), key: fc.nat(1), isTombstone: fc.boolean() }), {
      maxLength: 4,
    }),
    killed: fc.option(fc.nat(2)),
    isCompacted: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 5 }), async (steps) => {
      const ids = [randomUUID(), randomUUID()];
      const known = ({ current }: DirectoryHandle) => ids.map((id) => current.tenants.get(id)?.name);
      const one = () => aMortal({ log, registry });
      const all = [await one(), await one(), await one()];
      for (const [n, { changes, killed, isCompacted }] of steps.entries()) {
        if (killed !== null) all[killed]?.kill();
        const made = changes.map(({ by, key, isTombstone }, index) => {
          const id = ids[key] ?? '';
          const entity = isTombstone ? null : named(id, `${n} ${index}`);
          return all[by]?.directory.change('tenant', id, () => ({ entity, answer: undefined }));
        });
        await Promise.allSettled(made);
        if (isCompacted) await log.maintain();
        if (killed !== null) {
          await all[killed]?.directory.close();
          all[killed] = await one();
        }
      }
      const running = all.map(({ directory }) => directory);
      await expect
        .poll(async () => {
          await log.maintain();
          const later = await opened({ log, registry });
          const each = [...running, later].map((directory) => JSON.stringify(known(directory)));
          await later.close();
          return [...new Set(each)].length;
        })
        .toBe(1);
      for (const { close } of running) await close();
    }),
    { numRuns: 40 },
  );
});

function named(id: string, name: string): Tenant {
  return { ...aTenant(id), name };
}

/** Returns the log of a process in which `happens` runs before the first append. */
function beforeItsAppend(log: Log, happens: () => Promise<unknown>): Log {
  let isFirst = true;
  const append: Log['append'] = async (...args) => {
    if (isFirst) {
      isFirst = false;
      await happens();
    }
    return await log.append(...args);
  };
  return withMethods(log, { append });
}

type Topic = Awaited<ReturnType<typeof anEmptyTopic>>;

/** Returns a function that appends a change like a process that is killed directly after the append. */
async function appender({ log, registry }: Topic, id: string) {
  const codec = await createCodec(registry, directoryEntry);
  return async (name: string | null, follows: number | ''): Promise<number> => {
    const value =
      name === null ? null : codec.encode({ tenant: named(id, name), project: null, token: null });
    const headers = { [PREDECESSOR_HEADER]: String(follows) };
    const key = entityKey('tenant', id);
    return (await log.append(TOPICS.directory, 0, [{ key, value, headers }])).baseOffset;
  };
}

/** Opens a process that can be killed. After the kill, its appends are stored, but the process receives an error. */
async function aMortal({ log, registry }: Topic): Promise<{ directory: DirectoryHandle; kill(): void }> {
  let isKilled = false;
  const append: Log['append'] = async (...args) => {
    const appended = await log.append(...args);
    if (isKilled) throw new Unavailable('killed');
    return appended;
  };
  const directory = await opened({ log: withMethods(log, { append }), registry, ...SOON });
  return {
    directory,
    kill: () => {
      isKilled = true;
    },
  };
}
