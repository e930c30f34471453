/** Which dead letters an erasure takes with it. */
import { randomUUID } from 'node:crypto';
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { ErasedData } from '@questlog/schemas/erased';
import { anErasure, anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { eventId, millisOf } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { dayOf } from '../uploads/core/uploadKey.ts';
import { erasedRecords, unnamedFiles } from './eraseFiles.ts';

test('a dead letter is of an erasure where it holds nothing else: another player’s events are still to be replayed', async () => {
  const log = await aLog();
  await log.ensureTopics(topicDefinitions(1));
  const registry = await openLogRegistry(log);
  const [tenantId, projectId] = [randomUUID(), randomUUID()];
  const [gone, stays] = [randomUUID(), randomUUID()];
  const erased = new ErasedData();
  erased.add(anErasure({ tenantId, projectId, sessions: [{ projectId, ids: [gone] }] }));
  const isErased = await erasedRecords(registry);
  const codec = await createCodec(registry, eventsAccepted);
  const asked = (...sessions: string[]) => {
    const events = sessions.map((sessionId) => ({ sessionId }));
    const value = codec.encode(anEventsAccepted({ tenantId, projectId, events }));
    return isErased(erased, TOPICS.events, value);
  };
  expect([await asked(gone, gone), await asked(gone, stays), await asked(stays)]).toEqual([
    true,
    false,
    false,
  ]);
});

test('of a project the files go whose reports are past their days: no row names them any more', async () => {
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
