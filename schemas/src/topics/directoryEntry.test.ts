/** Tests that this version decodes the entries of an earlier version. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { parseSchema } from './contract.ts';
import { type DirectoryEntry, directoryEntry, type Project } from './directoryEntry.ts';

const project: Project = {
  id: randomUUID(),
  tenantId: randomUUID(),
  name: 'P',
  revision: 'B',
  reportWindow: { beforeMs: 1, afterMs: 2 },
  limits: { eventsPerSecond: 1, requestsPerSecond: null, bytesPerSecond: 2 ** 40, burstSeconds: 10 },
  suspended: true,
  retentionDays: { events: 30, sessions: null, reports: 365, links: null, uploads: 7 },
  createdAt: 3,
};

test('decodes a project with its report window and its limits, and the limits of its tenant', () => {
  const { limits = null } = project;
  const tenant = { id: randomUUID(), name: 'T', monthlySoftQuota: null, spread: 1, limits, createdAt: 3 };
  const entry: DirectoryEntry = { tenant, project, token: null };
  expect(directoryEntry.type.fromBuffer(directoryEntry.type.toBuffer(entry))).toMatchObject(entry);
});

test('a project of a version without windows and limits decodes without them', () => {
  const earlier = parseSchema<object>(ofEarlier(directoryEntry.schema));
  const { id, tenantId, name, revision, createdAt } = project;
  const known = { id, tenantId, name, revision, createdAt };
  const bytes = earlier.toBuffer({ tenant: null, project: known, token: null });
  const decoded = directoryEntry.type.fromBuffer(bytes, directoryEntry.type.createResolver(earlier));
  expect(decoded.project).toMatchObject({
    ...known,
    reportWindow: null,
    limits: null,
    suspended: false,
    retentionDays: null,
    switches: [],
  });
});

function ofEarlier(schema: string): string {
  const parsed = JSON.parse(schema);
  const added = ['reportWindow', 'limits', 'suspended', 'retentionDays', 'switches'];
  const project = parsed.fields[1].type[1];
  project.fields = project.fields.filter(({ name }: { name: string }) => !added.includes(name));
  return JSON.stringify(parsed);
}
