/** Which dead letters an erasure takes with it. */
import { randomUUID } from 'node:crypto';
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { ErasedData } from '@questlog/schemas/erased';
import { anErasure, anEventsAccepted } from '@questlog/schemas/fixtures/builders';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, test } from 'vitest';
import { erasedRecords } from './eraseFiles.ts';

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
