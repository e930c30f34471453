/** Tests the check of the files of a report. */
import { randomBytes, randomUUID } from 'node:crypto';
import { emptyDirectory, type Principal } from '@questlog/runtime/directory/directory';
import type { Clock } from '@questlog/runtime/process/clock';
import { yieldToEventLoop } from '@questlog/runtime/process/waiting';
import { findUpload } from '@questlog/runtime/uploads/readUpload';
import type { FoundUpload, UploadStore } from '@questlog/runtime/uploads/uploadStore';
import { anErasure } from '@questlog/schemas/fixtures/builders';
import { eventId } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { visibleSessions } from '../entityCache/openCaches.ts';
import type { SessionCache } from '../entityCache/sessionCache.ts';
import { checkAttachment, createUpload, openAttachmentChecks } from './uploads.ts';

const NOW = Date.UTC(2026, 10, 22);
const DAY_MS = 24 * 60 * 60 * 1000;
const clock: Clock = { now: () => NOW };
const projectId = randomUUID();
const missing = { state: 'missing' };

test('finds a file of the project with the stated size, for ids in upper and lower case', async () => {
  const uploadId = anId();
  const store = storeWith(uploadId, 935);
  const stored = { state: 'stored', sizeBytes: 935 };
  const check = (sizeBytes?: number): Promise<unknown> =>
    checkAttachment({ store, clock }, projectId, { uploadId: uploadId.toUpperCase(), sizeBytes });

  expect(await check()).toEqual(stored);
  expect(await check(935)).toEqual(stored);
  expect(await check(936)).toEqual(missing);
});

test('reports files of another project, without bytes, with an invalid id, or older than a day as missing', async () => {
  const [uploadId, old] = [anId(), anId(NOW - DAY_MS - 1)];
  const check = (store: UploadStore | undefined, id = uploadId, project = projectId): Promise<unknown> =>
    checkAttachment({ store, clock }, project, { uploadId: id });

  expect(await check(storeWith(uploadId, 1), uploadId, randomUUID())).toEqual(missing);
  expect(await check(storeWith(uploadId, undefined))).toEqual(missing);
  expect(await check(storeWith(uploadId, 1), randomUUID())).toEqual(missing);
  expect(await check(storeWith(uploadId, 1), '../x')).toEqual(missing);
  expect(await check(storeWith(old, 1), old)).toEqual(missing);
  expect(await check(undefined)).toEqual(missing);
});

test('answers that a file has expired if the project no longer keeps it', async () => {
  const [old, young] = [anId(NOW - 3 * DAY_MS), anId(NOW - DAY_MS)];
  const answer = (id: string, days: number | null) =>
    findUpload(storeWith(randomUUID(), 1), { projectId, days, nowMs: NOW }, id);
  await expect(answer(old, 2)).rejects.toThrow(
    `upload ${old} has expired or was erased: this project keeps uploads for 2 days`,
  );
  await expect(answer(young, 2)).rejects.toThrow(`upload ${young} does not exist`);
  await expect(answer(old, null)).rejects.toThrow(`upload ${old} does not exist`);
});

test('many files in the reports of one tenant do not delay the files of another tenant', async () => {
  const looked: { whose: string; answer(): void }[] = [];
  const find: UploadStore['find'] = ({ projectId: whose }) =>
    new Promise((resolve) => looked.push({ whose, answer: () => resolve(undefined) }));
  const check = openAttachmentChecks({ store: { find } as UploadStore, clock });
  const ofReport = (tenantId: string, files: number) =>
    check(
      { tenantId, projectId: tenantId },
      Array.from({ length: files }, () => ({ uploadId: anId() })),
    );
  for (let reports = 0; reports < 100; reports += 1) void ofReport('greedy', 50);
  await yieldToEventLoop();
  expect(looked).toHaveLength(15);
  const other = ofReport('other', 2);
  for (let n = 0; n < 2; n += 1) {
    await yieldToEventLoop();
    expect(looked.at(-1)?.whose).toBe('other');
    looked.at(-1)?.answer();
  }
  expect(await other).toEqual([missing, missing]);
});

test('rejects an upload for an erased session', async () => {
  const [tenantId, gone] = [randomUUID(), randomUUID()];
  const directory = emptyDirectory();
  directory.erased.add(anErasure({ tenantId, projectId, sessions: [{ projectId, ids: [gone] }] }));
  const sessions = visibleSessions({} as SessionCache, { current: directory, caughtUp: async () => {} });
  const described: unknown[] = [];
  const store = {
    describe: async (_: unknown, { sessionId }: { sessionId: string }) => void described.push(sessionId),
    address: async () => '',
  } as unknown as UploadStore;
  const principal = { tenant: { id: tenantId }, project: { id: projectId } } as unknown as Principal;
  const input = { attachmentType: 'log_bundle', fileName: 'game.log', mimeType: 'text/plain' } as const;
  const make = (sessionId: string) =>
    createUpload({ store, clock, sessions }, principal, { ...input, sessionId }, '');
  await expect(make(gone.toUpperCase())).rejects.toMatchObject({ code: 'unknown_session' });
  const stays = randomUUID();
  await make(stays);
  expect(described).toEqual([stays]);
});

function anId(millis = NOW): string {
  return eventId(millis, 0, randomBytes(8));
}

/** Returns a store that contains one upload of the project. */
function storeWith(uploadId: string, sizeBytes: number | undefined): UploadStore {
  const found: FoundUpload = {
    sizeBytes,
    description: {
      ...{ attachmentType: 'other', fileName: 'x', mimeType: 'text/plain' },
      ...{ sizeBytes: null, sessionId: null, expiresAt: '' },
    },
  };
  const find: UploadStore['find'] = async (key) =>
    key.projectId === projectId && key.uploadId === uploadId ? found : undefined;
  return { find } as UploadStore;
}
