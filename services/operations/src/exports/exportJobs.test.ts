/** Tests which exports can be created and deleted. */
import { randomUUID } from 'node:crypto';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import { anEmptyTopic, aTenant, opened } from '@questlog/runtime/directory/testing/directoryBuilders';
import { anErasure } from '@questlog/schemas/fixtures/builders';
import type { ExportOutput } from '@questlog/schemas/http/export';
import { expect, test } from 'vitest';
import { mergeParts } from '../erasures/core/parts.ts';
import { erasedExports } from './erasedExports.ts';
import { exportJobs } from './exportJobs.ts';

const [tenantId, projectId] = [randomUUID(), randomUUID()];
/** Returns the context of a request. The handlers use only the query. */
const context = (querystring = '') => ({ querystring }) as never;
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
  const { directories, create, remove } = await processes();
  const [directory] = directories;
  const { id } = await create(0);
  const erasure = anErasure({ tenantId, projectId, sessions: [], hiddenAt: null, state: 'running' });
  await directory.put('erasure', erasure.id, erasure);
  await expect(remove(id)).rejects.toMatchObject({ code: 'conflict' });
  const hidden = { ...erasure, hiddenAt: NOW_MS + 1, state: 'done' as const };
  await directory.put('erasure', erasure.id, hidden);
  await expect(remove(id)).rejects.toMatchObject({ code: 'conflict' });
  expect(directory.current.exports.has(id)).toBe(true);
  const compared = { exportId: id, comparedAt: NOW_MS + 2, rewritten: 0, planId: randomUUID(), names: [] };
  await directory.put('erasure', erasure.id, { ...hidden, exports: [compared] });
  await remove(id);
  expect(directory.current.exports.has(id)).toBe(false);
});

test('an erasure that failed before it hid rows does not prevent the deletion of an export', async () => {
  const { directories, create, remove } = await processes();
  const [directory] = directories;
  const { id } = await create(0);
  const failed = anErasure({ tenantId, projectId, sessions: [], hiddenAt: null, state: 'failed' });
  await directory.put('erasure', failed.id, failed);
  expect(erasedExports(directory.current, failed)).toEqual([]);
  await remove(id);
  expect(directory.current.exports.has(id)).toBe(false);
});

test('the receipt of an erasure that another process requests during the deletion of an export names the export', async () => {
  const { directories, create } = await processes();
  const [directory, other] = directories;
  const { id } = await create(0);
  const erasure = anErasure({ tenantId, projectId, sessions: [], hiddenAt: null, state: 'running' });
  const change: DirectoryHandle['change'] = async (...args) => {
    const answer = await directory.change(...args);
    if (args[0] === 'export') await other.put('erasure', erasure.id, erasure);
    await directory.caughtUp();
    return answer;
  };
  const { deleteExport } = exportJobs({ directory: { ...directory, change }, clock: { now: () => NOW_MS } });
  await deleteExport(context(), { params: { id }, body: undefined, caller: undefined });
  const stored = directory.current.erasures.get(erasure.id) ?? erasure;
  expect(erasedExports(directory.current, stored)).toMatchObject([{ id }]);
});

test('a receipt lists an export once if a run compared its files after an interrupted forced deletion', async () => {
  const { directories } = await processes();
  const exportId = randomUUID();
  const erasure = anErasure({
    ...{ tenantId, projectId, sessions: [], hiddenAt: NOW_MS, state: 'done' },
    exports: [{ exportId, comparedAt: NOW_MS + 2, rewritten: 0, planId: randomUUID(), names: [] }],
    abandonedExports: [{ exportId, path: 's3://bucket/games', files: 3, rows: 70, abandonedAt: NOW_MS + 1 }],
  });
  expect(erasedExports(directories[0].current, erasure)).toMatchObject([{ id: exportId, problem: null }]);
});

test('a forced deletion ends an export whose bucket no longer exists, and the receipts of the erasures name the folder', async () => {
  const { directories, create, remove } = await processes();
  const [directory] = directories;
  const { id, path } = await create(0);
  const job = directory.current.exports.get(id);
  if (job !== undefined) await directory.put('export', id, { ...job, files: 3, rows: 70 });
  const scope = { tenantId, projectId, sessions: [] };
  const affected = [
    anErasure({ ...scope, hiddenAt: NOW_MS + 1, state: 'done' }),
    anErasure({ ...scope, hiddenAt: null, state: 'running' }),
  ];
  const other = anErasure({ ...scope, projectId: randomUUID(), hiddenAt: NOW_MS + 1 });
  for (const one of [...affected, other]) await directory.put('erasure', one.id, one);
  await expect(remove(id, 'force=yes')).rejects.toMatchObject({ code: 'invalid_request' });
  await expect(remove(id, 'force=false')).rejects.toMatchObject({ code: 'conflict' });
  await remove(id, 'force=true');
  expect(directory.current.exports.has(id)).toBe(false);
  const receipt = (erasureId: string) => {
    const erasure = directory.current.erasures.get(erasureId);
    return erasure && erasedExports(directory.current, mergeParts(erasure, []));
  };
  const problem =
    'the export was deleted at 2026-11-21T00:00:00.000Z; 3 files with 70 rows of the last complete run, and possibly files of an unfinished run, stay in the folder';
  for (const { id: erasureId } of affected)
    expect(receipt(erasureId)).toEqual([
      { id, path, problem, comparedAt: null, rewritten: 0, planId: null, names: [] },
    ]);
  expect(receipt(other.id)).toEqual([]);
  // The folder can be used again.
  expect(await create(1)).toMatchObject({ path });
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
    (await jobs[process].createExport(context(), {
      ...{ params: {}, caller: undefined },
      body: { projectId, kind: 'events', output: 's3://bucket/games' },
    })) as ExportOutput;
  const remove = async (id: string, querystring = '') =>
    await jobs[1].deleteExport(context(querystring), { params: { id }, body: undefined, caller: undefined });
  return { directories, create, remove };
}
