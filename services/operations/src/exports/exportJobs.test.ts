/** Tests which exports can be created and deleted. */
import { randomUUID } from 'node:crypto';
import { anEmptyTopic, aTenant, opened } from '@questlog/runtime/directory/testing/directoryBuilders';
import { anErasure } from '@questlog/schemas/fixtures/builders';
import type { ExportOutput } from '@questlog/schemas/http/export';
import { expect, test } from 'vitest';
import { exportJobs } from './exportJobs.ts';

const [tenantId, projectId] = [randomUUID(), randomUUID()];
/** The handlers do not use the context of the request. */
const CONTEXT = {} as never;
const NOW_MS = Date.UTC(2026, 10, 21);

test('of two simultaneous requests for one folder, one creates an export', async () => {
  const { directories, create } = await processes();
  const answers = await Promise.allSettled([create(0), create(1)]);
  expect(answers.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  for (const directory of directories) {
    await directory.caughtUp();
    expect(directory.current.exports.size).toBe(1);
  }
});

test('an export cannot be deleted before its files were compared after an erasure', async () => {
  const { directories, jobs, create } = await processes();
  const [directory] = directories;
  const { id } = await create(0);
  const erasure = anErasure({ tenantId, projectId, sessions: [], hiddenAt: NOW_MS + 1, state: 'done' });
  await directory.put('erasure', erasure.id, erasure);
  const remove = async () =>
    await jobs[0].deleteExport(CONTEXT, { params: { id }, body: undefined, caller: undefined });
  await expect(remove()).rejects.toMatchObject({ code: 'conflict' });
  expect(directory.current.exports.has(id)).toBe(true);
  const compared = { exportId: id, comparedAt: NOW_MS + 2, rewritten: 0, planId: randomUUID(), names: [] };
  await directory.put('erasure', erasure.id, { ...erasure, exports: [compared] });
  await remove();
  expect(directory.current.exports.has(id)).toBe(false);
});

async function processes() {
  const topic = await anEmptyTopic();
  const directories = [await opened(topic), await opened(topic)] as const;
  const [first, second] = directories;
  await first.put('tenant', tenantId, aTenant(tenantId));
  await first.put('project', projectId, { tenantId, id: projectId, name: 'G', revision: null, createdAt: 0 });
  const clock = { now: () => NOW_MS };
  const jobs = [exportJobs({ directory: first, clock }), exportJobs({ directory: second, clock })] as const;
  const create = async (process: 0 | 1) =>
    (await jobs[process].createExport(CONTEXT, {
      ...{ params: {}, caller: undefined },
      body: { projectId, kind: 'events', output: 's3://bucket/games' },
    })) as ExportOutput;
  return { directories, jobs, create };
}
