import { randomUUID } from 'node:crypto';
import { directoryEntry, entityKey } from '@questlog/schemas/topics/directoryEntry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { aLog, topicSpec } from '../log/embedded/testLog.ts';
import { Unavailable } from '../process/errors.ts';
import { silentLogger } from '../process/logger.ts';
import { openLogRegistry } from '../registry/logRegistry.ts';
import { createCodec } from '../registry/registry.ts';
import { openDirectory } from './openDirectory.ts';

test('a tenant that a newer version wrote is known once the registry answers, and nothing stops before', async () => {
  const log = await aLog();
  await log.ensureTopics([topicSpec(TOPICS.directory), topicSpec(TOPICS.schemas)]);
  const own = await openLogRegistry(log);
  let isAway = false;
  let delays = 0;
  const registry = {
    ...own,
    schemaById: async (id: number) => {
      if (isAway) throw new Unavailable('the registry is away');
      return await own.schemaById(id);
    },
  };
  const logger = { ...silentLogger, error: () => void delays++ };
  const directory = await openDirectory({ log, registry, logger });
  onTestFinished(() => directory.close());
  let failure: unknown;
  directory.failed.catch((error: unknown) => {
    failure = error;
  });

  const schema = JSON.stringify({ ...JSON.parse(directoryEntry.schema), doc: 'the next version' });
  const newer = await createCodec(own, { ...directoryEntry, schema });
  isAway = true;
  const tenant = { id: randomUUID(), name: 'T', monthlySoftQuota: null, spread: 1, createdAt: 1 };
  const value = newer.encode({ tenant, project: null, token: null });
  await log.append(TOPICS.directory, 0, [{ key: entityKey('tenant', tenant.id), value }]);
  await expect.poll(() => failure ?? delays).toBeGreaterThan(1);
  isAway = false;
  await expect.poll(() => directory.current.tenants.get(tenant.id)).toMatchObject({ name: 'T' });
  expect(failure).toBeUndefined();
});
