/** Tests on the real engine which files a sweep removes. */
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addReports, numbered, sharedStore } from '@questlog/runtime/clickhouse/chdb/testing/storedReports';
import type { ProjectionProgress, Projections } from '@questlog/runtime/log/projection/projection';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { stopsInTime } from '@questlog/runtime/process/testing/stopsInTime';
import { storageKey, type UploadKey } from '@questlog/runtime/uploads/core/uploadKey';
import { openFolderStore } from '@questlog/runtime/uploads/folderStore';
import type { UploadStore } from '@questlog/runtime/uploads/uploadStore';
import { eventId } from '@questlog/schemas/uuid';
import { expect, onTestFinished, test } from 'vitest';
import { openSweep, sweepUploads } from './sweep.ts';

const HOUR_MS = 60 * 60 * 1000;
const NOW = Date.UTC(2026, 10, 22, 0, 30);
const shared = sharedStore();

test('removes files that no report of their project names after 25 hours, with and without bytes', async () => {
  const { deps, uploads, anUpload } = await aSweep();
  const [projectId, otherId] = [randomUUID(), randomUUID()];
  const young = await anUpload(projectId, 24.9);
  const forgotten = await anUpload(projectId, 25.1);
  const neverCame = await anUpload(projectId, 30, false);
  const old = await anUpload(projectId, 6 * 24);
  const named = await anUpload(projectId, 26);
  const namedByOthers = await anUpload(projectId, 26);
  await addReports(shared.store, { projectId, count: 1, receivedAt: String(NOW) });
  await name(named, projectId);
  await name(namedByOthers, otherId);

  // This file stays, because its report may have been lost with ClickHouse and may have expired in the log.
  const beyondTheLog = await anUpload(projectId, 7 * 24);
  expect(await sweepUploads(deps, uploads)).toBe(4);
  for (const key of [young, named, beyondTheLog]) expect((await uploads.find(key))?.sizeBytes).toBe(4);
  for (const key of [forgotten, neverCame, old, namedByOthers]) {
    expect([storageKey(key), await uploads.find(key)]).toEqual([storageKey(key), undefined]);
  }
  expect(await sweepUploads(deps, uploads)).toBe(0);
});

test('removes nothing before ClickHouse has all reports that were filed', async () => {
  const { deps, uploads, anUpload } = await aSweep();
  const projectId = randomUUID();
  const key = await anUpload(projectId, 26);
  const behind = {
    caughtUp: async () => {
      throw new Unavailable('the projection has not caught up');
    },
  };
  await expect(sweepUploads({ ...deps, projections: reportsOf(behind) }, uploads)).rejects.toThrow(
    Unavailable,
  );
  const catchingUp = { caughtUp: () => name(key, projectId) };

  expect(await sweepUploads({ ...deps, projections: reportsOf(catchingUp) }, uploads)).toBe(0);
  expect(await uploads.find(key)).toBeDefined();
});

test('removes nothing if ClickHouse does not answer', async () => {
  const { deps, uploads, anUpload } = await aSweep();
  const key = await anUpload(randomUUID(), 26);
  const store = { ...shared.store, query: () => Promise.reject(new Unavailable('silent')) };
  await expect(sweepUploads({ ...deps, store }, uploads)).rejects.toThrow(Unavailable);
  expect(await uploads.find(key)).toBeDefined();
});

const OFTEN = { firstMs: 1, everyMs: 1 };

test('runs soon after the start and then periodically, and succeeds after ClickHouse answers', async () => {
  const { deps, uploads, anUpload } = await aSweep();
  const key = await anUpload(randomUUID(), 6 * 24);
  const never = await anUpload(randomUUID(), 2 * 24, false);
  const young = await anUpload(randomUUID(), 20);
  let isAway = true;
  const caughtUp = async (): Promise<void> => {
    if (!isAway) return;
    isAway = false;
    throw new Unavailable('the projection has not caught up');
  };
  const sweep = openSweep(
    { ...deps, projections: reportsOf({ caughtUp }), logger: silentLogger },
    uploads,
    OFTEN,
  );
  onTestFinished(() => sweep.close());

  for (const old of [key, never]) await expect.poll(() => uploads.find(old)).toBeUndefined();
  expect(await uploads.find(young)).toBeDefined();
});

test('a stop does not wait for a waiting sweep, which then removes nothing', async () => {
  const { deps, uploads, anUpload } = await aSweep();
  const key = await anUpload(randomUUID(), 26);
  const [silent, begun] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const caughtUp = async (): Promise<void> => {
    begun.resolve();
    await silent.promise;
  };
  const sweep = openSweep(
    { ...deps, projections: reportsOf({ caughtUp }), logger: silentLogger },
    uploads,
    OFTEN,
  );
  await begun.promise;
  expect(await stopsInTime(() => sweep.close())).toBe(true);

  silent.resolve();
  await sweep.close();
  expect(await uploads.find(key)).toBeDefined();
});

/** Returns a sweep with its own folder. The current time is `NOW`. */
async function aSweep(): Promise<{
  deps: Parameters<typeof sweepUploads>[0];
  uploads: UploadStore;
  anUpload(projectId: string, ageHours: number, hasBytes?: boolean): Promise<UploadKey>;
}> {
  const folder = mkdtempSync(join(tmpdir(), 'uploads-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const uploads = await openFolderStore({ folder, signingKey: '' });
  const deps = {
    ...{ store: shared.store, clock: { now: () => NOW } },
    projections: reportsOf({ caughtUp: async () => {} }),
  };
  const anUpload = async (projectId: string, ageHours: number, hasBytes = true): Promise<UploadKey> => {
    const key = { projectId, uploadId: eventId(NOW - ageHours * HOUR_MS, 0, randomBytes(8)) };
    await uploads.describe(key, {
      ...{ attachmentType: 'other', fileName: 'x', mimeType: 'text/plain' },
      ...{ sizeBytes: null, sessionId: null, expiresAt: '' },
    });
    if (hasBytes) await uploads.receiver?.receive(key, bytesOf('file'));
    return key;
  };
  return { deps, uploads, anUpload };
}

function reportsOf(reports: Pick<ProjectionProgress, 'caughtUp'>): Projections {
  return { reports } as Projections;
}

async function* bytesOf(text: string): AsyncGenerator<Buffer> {
  yield Buffer.from(text);
}

/** Files a report of the project that names the upload. */
async function name({ uploadId }: UploadKey, projectId: string): Promise<void> {
  await shared.store.command(
    `INSERT INTO report_versions (project_id, id, attachments)
     SELECT '${projectId}', '${numbered(9)}', [tuple(toUUID('${uploadId}'), 'other', 'x', '', NULL, 'missing')]`,
  );
}
