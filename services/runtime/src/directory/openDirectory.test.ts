import { randomUUID } from 'node:crypto';
import { directoryEntry, entityKey } from '@questlog/schemas/topics/directoryEntry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { aLog, topicSpec } from '../log/embedded/testing/testLog.ts';
import type { Log } from '../log/log.ts';
import { withMethods } from '../log/testing/alteredLog.ts';
import { Unavailable } from '../process/errors.ts';
import { silentLogger } from '../process/logger.ts';
import { openLogRegistry } from '../registry/logRegistry.ts';
import { createCodec } from '../registry/registry.ts';
import { PREDECESSOR_HEADER } from './effectiveRecords.ts';
import { openDirectory } from './openDirectory.ts';
import { anEmptyTopic, aTenant, opened } from './testing/directoryBuilders.ts';

test('keeps working while the registry is unavailable, and reads a tenant of a newer version afterwards', async () => {
  const log = await aLog();
  await log.ensureTopics([topicSpec(TOPICS.directory), topicSpec(TOPICS.schemas)]);
  const own = await openLogRegistry(log);
  let isUnavailable = false;
  let delays = 0;
  const registry = {
    ...own,
    schemaById: async (id: number) => {
      if (isUnavailable) throw new Unavailable('the registry is away');
      return await own.schemaById(id);
    },
  };
  const logger = { ...silentLogger, error: () => void delays++ };
  const directory = await openDirectory(log, registry, logger);
  onTestFinished(() => directory.close());
  let failure: unknown;
  directory.failed.catch((error: unknown) => {
    failure = error;
  });

  const schema = JSON.stringify({ ...JSON.parse(directoryEntry.schema), doc: 'the next version' });
  const newer = await createCodec(own, { ...directoryEntry, schema });
  isUnavailable = true;
  const tenant = { id: randomUUID(), name: 'T', monthlySoftQuota: null, spread: 1, createdAt: 1 };
  const value = newer.encode({ tenant, project: null, token: null });
  await log.append(TOPICS.directory, 0, [{ key: entityKey('tenant', tenant.id), value }]);
  await expect.poll(() => failure ?? delays).toBeGreaterThan(1);
  isUnavailable = false;
  await expect.poll(() => directory.current.tenants.get(tenant.id)).toMatchObject({ name: 'T' });
  expect(failure).toBeUndefined();
});

test('waits for the leader of its topic, and logs the topic', async () => {
  const { log, registry } = await anEmptyTopic();
  let isLed = false;
  const logged: unknown[] = [];
  const leaderless = withMethods(log, {
    endOffset: async (topic, partition) => {
      if (!isLed) throw new Unavailable('it has no leader');
      return await log.endOffset(topic, partition);
    },
  });
  const warn = (_: string, fields?: object) => void logged.push(fields);
  const opening = openDirectory(leaderless, registry, { ...silentLogger, warn });
  await Promise.race([opening, expect.poll(() => logged.length).toBeGreaterThan(1)]);
  expect(logged[0]).toMatchObject({ topic: TOPICS.directory, partition: 0, cause: 'it has no leader' });
  isLed = true;
  await (await opening).close();
});

test('does not lose another process’s change while it decodes that record', async () => {
  const { log, registry } = await anEmptyTopic();
  const [decoding, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const slow = {
    ...registry,
    schemaById: async (id: number) => {
      decoding.resolve();
      await answered.promise;
      return await registry.schemaById(id);
    },
  };
  const other = await opened({ log, registry });
  let meanwhile = async (): Promise<void> => {};
  // A change waits for the end offset that it has requested, and not for later records.
  const endOffsets = async (topic: string): Promise<number[]> => {
    const ends = await log.endOffsets(topic);
    await meanwhile();
    return ends;
  };
  const one = await opened({ log: withMethods(log, { endOffsets }), registry: slow });
  const id = randomUUID();
  await one.put('tenant', id, aTenant(id));

  const schema = JSON.stringify({ ...JSON.parse(directoryEntry.schema), doc: 'the next version' });
  const newer = await createCodec(registry, { ...directoryEntry, schema });
  meanwhile = async () => {
    const value = newer.encode({ tenant: { ...aTenant(id), spread: 7 }, project: null, token: null });
    await log.append(TOPICS.directory, 0, [{ key: entityKey('tenant', id), value }]);
    await decoding.promise;
    meanwhile = async () => {};
  };
  await one.change('tenant', id, (known) => {
    answered.resolve();
    return { entity: { ...(known ?? aTenant(id)), name: 'renamed' }, answer: undefined };
  });
  for (const { change } of [one, other]) {
    await change('tenant', id, () => ({ answer: undefined }));
  }
  expect(one.current.tenants.get(id)).toMatchObject({ name: 'renamed', spread: 7 });
  expect(other.current.tenants.get(id)).toMatchObject({ name: 'renamed', spread: 7 });
});

test('a reader that starts after an ineffective change agrees with a reader that read every record', async () => {
  const { log, registry } = await anEmptyTopic();
  const codec = await createCodec(registry, directoryEntry);
  const id = randomUUID();
  const append = async (name: string, follows: number | ''): Promise<number> => {
    const value = codec.encode({ tenant: { ...aTenant(id), name }, project: null, token: null });
    const headers = { [PREDECESSOR_HEADER]: String(follows) };
    const key = entityKey('tenant', id);
    return (await log.append(TOPICS.directory, 0, [{ key, value, headers }])).baseOffset;
  };
  const first = await append('first', '');
  const counted = await append('counts', first);
  const lost = await append('does not count', first);
  const saw = await opened({ log, registry });
  expect(saw.current.tenants.get(id)).toMatchObject({ name: 'counts' });
  await append('decided again', counted);

  const tail: Log['tail'] = (options) =>
    log.tail({
      ...options,
      onBatch: (batch) =>
        options.onBatch({ ...batch, records: batch.records.filter(({ offset }) => offset >= lost) }),
    });
  const compacted = await opened({ log: withMethods(log, { tail }), registry });
  await saw.change('tenant', id, () => ({ answer: undefined }));
  expect(saw.current.tenants.get(id)).toMatchObject({ name: 'decided again' });
  expect(compacted.current.tenants.get(id)).toEqual(saw.current.tenants.get(id));
});

test('a change throws Unavailable and writes nothing if the process cannot read the log', async () => {
  const { log, registry } = await anEmptyTopic();
  const { promise: mayRead, resolve: readOn } = Promise.withResolvers<void>();
  const tail: Log['tail'] = (options) =>
    log.tail({ ...options, onBatch: (batch) => mayRead.then(() => options.onBatch(batch)) });
  const blind = await opened({ log: withMethods(log, { tail }), registry, waitMs: 50 });
  // This hook runs before the directory is closed, because the close waits for the current record.
  onTestFinished(() => readOn());
  const id = randomUUID();
  await (await opened({ log, registry })).put('tenant', id, aTenant(id));
  const changed = blind.change('tenant', id, () => ({ entity: null, answer: undefined }));
  await expect(changed).rejects.toThrow(Unavailable);
  expect(await log.endOffsets(TOPICS.directory)).toEqual([1]);
});
