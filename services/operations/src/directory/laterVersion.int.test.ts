/**
 * Tests an upgrade that is in progress. This version changes tenants, projects, and tokens that have fields of a later version.
 */
import { randomUUID } from 'node:crypto';
import { openDirectory } from '@questlog/runtime/directory/openDirectory';
import { aLog, topicSpec } from '@questlog/runtime/log/embedded/testing/testLog';
import { systemClock } from '@questlog/runtime/process/clock';
import { silentLogger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { type MessageContract, parseSchema } from '@questlog/schemas/topics/contract';
import { type DirectoryEntry, directoryEntry, entityKey } from '@questlog/schemas/topics/directoryEntry';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { administer } from './administer.ts';
import { projectSwitches } from './projectSwitches.ts';

const [tenantId, projectId, tokenId] = [randomUUID(), randomUUID(), randomUUID()];
const tenant = { id: tenantId, name: 'T', monthlySoftQuota: null, spread: 1, createdAt: 1, plan: 'gold' };
const days = { events: 30, sessions: 60, reports: 30, links: 30, uploads: 30, crashes: 7 };
const project = {
  ...{ id: projectId, tenantId, name: 'P', revision: null, region: 'eu', createdAt: 1 },
  ...{ retentionDays: days, switches: [] },
};
const token = {
  ...{ id: tokenId, projectId, sha256: 'ab', scopes: ['read' as const], expiresAt: null, createdAt: 1 },
  onlyFrom: ['::1'],
};

test('changes by operators keep the fields of a later version, and a rotated token keeps its limits', async () => {
  const { operations, switches, later } = await aTopicOfTwo();
  await operations.patchTenant({ name: 'renamed', limits: { eventsPerSecond: 5 } }, tenantId);
  expect(await later('tenant', tenantId)).toMatchObject({ ...tenant, name: 'renamed' });

  await operations.patchProject({ name: 'renamed' }, projectId);
  expect(await later('project', projectId)).toMatchObject({ ...project, name: 'renamed' });
  await operations.patchProject({ retentionDays: { events: 20 } }, projectId);
  expect(await later('project', projectId)).toMatchObject({ retentionDays: { ...days, events: 20 } });
  const none = { events: null, sessions: null, reports: null, links: null, uploads: null };
  await operations.patchProject({ retentionDays: none }, projectId);
  expect(await later('project', projectId)).toMatchObject({ retentionDays: { ...none, crashes: 7 } });
  await switches.replace(projectId, [{ action: 'reject', reason: 'a flood' }]);
  expect(await later('project', projectId)).toMatchObject({
    ...{ region: 'eu', retentionDays: { crashes: 7 }, switches: [{ reason: 'a flood' }] },
  });

  const { body } = await operations.rotateToken({ overlapSeconds: 60 }, tokenId);
  expect(await later('token', body.id)).toMatchObject({ onlyFrom: ['::1'], rotatedFrom: tokenId });
  expect(await later('token', tokenId)).toMatchObject({ onlyFrom: ['::1'], rotatedTo: body.id });
});

test('does not show fields of a later version, and ignores them when it looks for a conflict', async () => {
  const { operations } = await aTopicOfTwo();
  expect(JSON.stringify([operations.tenants(), operations.projects(), operations.tokens()])).not.toMatch(
    /plan|region|crashes|onlyFrom/,
  );
  const again = await operations.createTenant({ id: tenantId, name: 'T' });
  expect(again).toMatchObject({ status: 200, body: { id: tenantId } });
});

/** Returns a topic with a tenant, a project, and a token that the later version wrote. */
async function aTopicOfTwo() {
  const log = await aLog();
  await log.ensureTopics([topicSpec(TOPICS.directory), topicSpec(TOPICS.schemas)]);
  const registry = await openLogRegistry(log);
  const directory = await openDirectory(log, registry, silentLogger);
  onTestFinished(() => directory.close());
  const codec = await createCodec(registry, laterContract());
  const nothing: DirectoryEntry = { tenant: null, project: null, token: null };
  for (const one of [{ tenant }, { project }, { token }]) {
    const [[kind, { id }] = ['tenant', tenant]] = Object.entries(one);
    const key = `${kind}:${id}`;
    await log.append(TOPICS.directory, 0, [{ key, value: codec.encode({ ...nothing, ...one }) }]);
  }
  await directory.caughtUp();
  const later = async (kind: 'tenant' | 'project' | 'token', id: string): Promise<unknown> => {
    let last: DirectoryEntry | undefined;
    const tail = await log.tail({
      topic: TOPICS.directory,
      from: 'earliest',
      onBatch: async ({ records }) => {
        for (const { key, value } of records)
          if (key === entityKey(kind, id)) last = await codec.decode(value);
      },
    });
    await tail.waitForOffsets(await log.endOffsets(TOPICS.directory));
    await tail.close();
    return last?.[kind];
  };
  const operations = administer(directory, systemClock);
  return { operations, switches: projectSwitches(directory, systemClock), later };
}

/** Returns the schema of the later version. Tenants, projects, retention days, and tokens have one more field each. */
function laterContract(): MessageContract<DirectoryEntry> {
  const more: Readonly<Record<string, object>> = {
    Tenant: { name: 'plan', type: 'string', default: 'free' },
    Project: { name: 'region', type: ['null', 'string'], default: null },
    RetentionDays: { name: 'crashes', type: ['null', 'int'], default: null },
    Token: { name: 'onlyFrom', type: { type: 'array', items: 'string' }, default: [] },
  };
  const schema = JSON.stringify(JSON.parse(directoryEntry.schema), (_, part) =>
    more[part?.name] !== undefined && Array.isArray(part.fields)
      ? { ...part, fields: [...part.fields, more[part.name]] }
      : part,
  );
  return { ...directoryEntry, schema, type: parseSchema(schema) };
}
