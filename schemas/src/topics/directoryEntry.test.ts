/** Entries of an earlier version stay readable. */
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
  createdAt: 3,
};

test('a project keeps its window of reports', () => {
  const entry: DirectoryEntry = { tenant: null, project, token: null };
  expect(directoryEntry.type.fromBuffer(directoryEntry.type.toBuffer(entry))).toMatchObject(entry);
});

test('a project of a version without windows has none', () => {
  const earlier = parseSchema<object>(withoutWindow(directoryEntry.schema));
  const { reportWindow: _, ...known } = project;
  const bytes = earlier.toBuffer({ tenant: null, project: known, token: null });
  const decoded = directoryEntry.type.fromBuffer(bytes, directoryEntry.type.createResolver(earlier));
  expect(decoded.project).toMatchObject({ ...known, reportWindow: null });
});

function withoutWindow(schema: string): string {
  const parsed = JSON.parse(schema);
  const fields = parsed.fields[1].type[1].fields;
  parsed.fields[1].type[1].fields = fields.filter(({ name }: { name: string }) => name !== 'reportWindow');
  return JSON.stringify(parsed);
}
