/** Tests which files an erasure removes. */
import { randomUUID } from 'node:crypto';
import { dayOf } from '@questlog/runtime/uploads/core/uploadKey';
import { ErasedData } from '@questlog/schemas/erased';
import { anErasure } from '@questlog/schemas/fixtures/builders';
import { eventId, millisOf } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { removeFiles, unnamedFiles } from './eraseFiles.ts';

test('removes files of a project whose reports have expired, although no row names these files', async () => {
  const [tenantId, projectId] = [randomUUID(), randomUUID()];
  const nowMs = Date.UTC(2026, 10, 23, 12);
  const days = [40, 3, 0];
  const keys = days.map((day) => ({
    projectId,
    uploadId: eventId(nowMs - day * 86_400_000 - 60_000, 0, Buffer.alloc(8)),
  }));
  const later = { projectId, uploadId: eventId(nowMs + 1, 0, Buffer.alloc(8)) };
  const uploads = {
    list: async function* (day: string) {
      for (const key of [...keys, later]) if (dayOf(millisOf(key.uploadId)) === day) yield key;
    },
  };
  const erasure = anErasure({ tenantId, projectId, requestedAt: nowMs });
  const erased = new ErasedData();
  const projects = new Map([[projectId, { createdAt: nowMs - 41 * 86_400_000 }]]);
  const found = await unnamedFiles(uploads as never, erasure, { erased, projects, nowMs });
  expect(new Set(found)).toEqual(new Set(keys));
});

test('removes bytes that arrived after the removal of their upload at the next step', async () => {
  const [tenantId, projectId, session] = [randomUUID(), randomUUID(), randomUUID()];
  const nowMs = Date.UTC(2026, 10, 23, 12);
  const [orphan, other] = [0, 1].map((byte) => ({
    projectId,
    uploadId: eventId(nowMs - 60_000, 0, Buffer.alloc(8, byte)),
  }));
  const left = new Set([orphan, other]);
  const uploads = {
    list: async function* (day: string) {
      for (const key of left) if (key && dayOf(millisOf(key.uploadId)) === day) yield key;
    },
    // `orphan` has no description, so its owner is unknown and clients cannot read it.
    find: async (key: unknown) => (key === other ? { description: { sessionId: null } } : undefined),
    remove: async (key: typeof orphan) => void left.delete(key),
  };
  const erasure = anErasure({ tenantId, projectId, sessions: [{ projectId, ids: [session] }] });
  const projects = new Map([[projectId, { createdAt: nowMs }]]);
  const known = { erased: new ErasedData(), projects, nowMs };
  const found = await unnamedFiles(uploads as never, erasure, known);
  await removeFiles(uploads as never, found);
  expect([...left]).toEqual([other]);
});
