/**
 * Tests truncations of the directory's topic while processes have the lost records in memory. Tokens stay valid, revocations
 * stay in force, and the log receives the lost records again.
 */
import { randomUUID } from 'node:crypto';
import { TOPICS } from '@questlog/schemas/topics/topics';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { EmbeddedExtras } from '../log/embedded/embeddedLog.ts';
import { aLog, topicSpec } from '../log/embedded/testing/testLog.ts';
import type { Log } from '../log/log.ts';
import { withMethods } from '../log/testing/alteredLog.ts';
import { Unavailable } from '../process/errors.ts';
import { yieldToEventLoop } from '../process/waiting.ts';
import { openLogRegistry } from '../registry/logRegistry.ts';
import type { SchemaRegistry } from '../registry/registry.ts';
import { EffectiveRecords, PREDECESSOR_HEADER } from './effectiveRecords.ts';
import type { DirectoryHandle } from './openDirectory.ts';
import type { RepairedTruncation } from './repairTruncation.ts';
import { aTenant, opened } from './testing/directoryBuilders.ts';

const SOON = { copyAfterMs: 20 };

test('keeps a token that a truncation removed valid in every process, and a revoked token revoked', async () => {
  const topic = await aTopic();
  const [one, other] = [await topic.start(), await topic.start()];
  const [valid, revoked] = [aToken(), aToken()];
  await one.put('token', revoked.id, revoked);
  await one.put('token', valid.id, valid);
  await one.put('token', revoked.id, null);
  for (const { change } of [one, other]) await change('token', valid.id, () => ({ answer: undefined }));
  await topic.log.truncate(TOPICS.directory, 0, 1);
  const tokens = ({ current }: DirectoryHandle) => [...current.tokens.keys()];
  do {
    for (const process of [one, other]) expect(tokens(process)).toEqual([valid.id]);
    await yieldToEventLoop();
  } while (one.repairs.length + other.repairs.length < 2);
  for (const { repairs } of [one, other]) {
    expect(repairs).toMatchObject([{ offset: 1, missing: expect.arrayContaining([`token:${valid.id}`]) }]);
  }
  for (const process of [one, other, await topic.start()]) expect(tokens(process)).toEqual([valid.id]);
});

test('serves the cached directory while the log rejects appends, and appends the lost records afterwards', async () => {
  const topic = await aTopic();
  let isDown = false;
  let rejections = 0;
  const append: Log['append'] = async (...args) => {
    if (isDown) throw new Unavailable(`the log is away, ${rejections++}`);
    return await topic.log.append(...args);
  };
  const one = await topic.start(withMethods(topic.log, { append }));
  const token = aToken();
  await one.put('token', token.id, token);
  isDown = true;
  await topic.log.truncate(TOPICS.directory, 0, 0);
  await expect.poll(() => rejections).toBeGreaterThan(1);
  expect([...one.current.tokens.keys()]).toEqual([token.id]);
  isDown = false;
  await expect.poll(() => one.repairs.length).toBe(1);
  expect([...(await topic.start()).current.tokens.keys()]).toEqual([token.id]);
});

test('does not undo a change after the truncation by restoring an older lost record', async () => {
  const topic = await aTopic();
  const released = Promise.withResolvers<void>();
  let isBlocked = false;
  const append: Log['append'] = async (...args) => {
    if (isBlocked) await released.promise;
    return await topic.log.append(...args);
  };
  const one = await topic.start(withMethods(topic.log, { append }));
  const id = randomUUID();
  await one.put('tenant', id, { ...aTenant(id), name: 'kept' });
  await one.put('tenant', id, { ...aTenant(id), name: 'lost' });
  isBlocked = true;
  await topic.log.truncate(TOPICS.directory, 0, 1);
  const later = await topic.start();
  await later.change('tenant', id, () => ({
    entity: { ...aTenant(id), name: 'changed since' },
    answer: undefined,
  }));
  released.resolve();
  await expect.poll(() => one.repairs.length).toBe(1);
  for (const { current } of [one, later, await topic.start()]) {
    await expect.poll(() => current.tenants.get(id)?.name).toBe('changed since');
  }
});

test('a change that was decided on a lost record is effective, and later changes replace it', () => {
  const record = (offset: number, follows: string) => ({
    ...{ key: 'k', offset, value: Buffer.from(`${offset}`), headers: { [PREDECESSOR_HEADER]: follows } },
  });
  const predecessors = new EffectiveRecords();
  expect(predecessors.accept(record(3, ''))).toBe(true);
  expect(predecessors.accept(record(4, '57'))).toBe(true);
  expect(predecessors.headersFor('k')).toEqual({ [PREDECESSOR_HEADER]: '4' });
  expect(predecessors.accept(record(5, '4'))).toBe(true);
});

test('processes that change, start, and meet truncations at random agree in the end', async () => {
  const change = fc.record({ by: fc.nat(1), key: fc.nat(2), isTombstone: fc.boolean() });
  const step = fc.record({
    before: fc.array(change, { maxLength: 4 }),
    /** Number of records that the truncation removes from the end of the log. */
    cut: fc.nat(4),
    meanwhile: fc.array(change, { maxLength: 2 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 4 }), async (steps) => {
      const topic = await aTopic();
      const ids = [randomUUID(), randomUUID(), randomUUID()];
      const all = [await topic.start(), await topic.start()];
      const names = ({ current }: DirectoryHandle) => ids.map((id) => current.tenants.get(id)?.name ?? null);
      const make = (changes: readonly { by: number; key: number; isTombstone: boolean }[], what: string) =>
        Promise.allSettled(
          changes.map(async ({ by, key, isTombstone }, n) => {
            const id = ids[key] ?? '';
            const entity = isTombstone ? null : { ...aTenant(id), name: `${what} ${n}` };
            await all[by]?.change('tenant', id, () => ({ entity, answer: undefined }));
          }),
        );
      for (const [n, { before, cut, meanwhile }] of steps.entries()) {
        await make(before, `${n} before`);
        for (const one of all) await one.change('tenant', ids[0] ?? '', () => ({ answer: undefined }));
        const [known, heard] = [names(all[0] ?? fail()), all.map(({ repairs }) => repairs.length)];
        const [end = 0] = await topic.log.endOffsets(TOPICS.directory);
        await topic.log.truncate(TOPICS.directory, 0, Math.max(0, end - cut));
        await make(meanwhile, `${n} meanwhile`);
        if (cut > 0 && end > 0) {
          await expect
            .poll(() => all.every(({ repairs }, i) => repairs.length > (heard[i] ?? 0)), { interval: 1 })
            .toBe(true);
        }
        // Every entity stays, unless a concurrent change replaces it.
        const changed = new Set(meanwhile.map(({ key }) => key));
        for (const one of all) {
          expect(names(one).filter((_, key) => !changed.has(key))).toEqual(
            known.filter((_, key) => !changed.has(key)),
          );
        }
      }
      await expect
        .poll(async () => {
          const later = await topic.start();
          return new Set([...all, later].map((one) => JSON.stringify(names(one)))).size;
        })
        .toBe(1);
      for (const one of all) await one.close();
      await topic.log.close();
    }),
    { numRuns: 10 },
  );
});

function fail(): never {
  throw new Error('there is a process');
}

interface Started extends DirectoryHandle {
  readonly repairs: RepairedTruncation[];
}

interface Topic {
  readonly log: Log & EmbeddedExtras;
  readonly registry: SchemaRegistry;
  start(log?: Log): Promise<Started>;
}

/** Returns a topic that is not compacted, because a compacted topic cannot be truncated. */
async function aTopic(): Promise<Topic> {
  const log = await aLog();
  await log.ensureTopics([topicSpec(TOPICS.directory), topicSpec(TOPICS.schemas)]);
  const registry = await openLogRegistry(log);
  const start = async (on: Log = log): Promise<Started> => {
    const directory = await opened({ log: on, registry, ...SOON });
    const repairs: RepairedTruncation[] = [];
    directory.onTruncation((cut) => void repairs.push(cut));
    return { ...directory, repairs };
  };
  return { log, registry, start };
}

function aToken() {
  const [id, projectId] = [randomUUID(), randomUUID()];
  return { id, projectId, sha256: id, scopes: ['read' as const], expiresAt: null, createdAt: 1 };
}
