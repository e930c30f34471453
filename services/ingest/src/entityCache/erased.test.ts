import { randomUUID } from 'node:crypto';
import { applyEntry, type Directory, emptyDirectory } from '@questlog/runtime/directory/directory';
import { aSession } from '@questlog/schemas/fixtures/builders';
import { expect, test } from 'vitest';
import type { CachedSession } from './core/packedSessions.ts';
import { visibleSessions } from './openCaches.ts';
import { cachedSession, type SessionCache } from './sessionCache.ts';

const NOTHING_FOUND = {
  ...{ events: 0, links: 0, reports: 0, attachments: 0 },
  ...{ sessions: 0, deadLetters: 0, linkedEvents: 0, log: 0 },
};
const [TENANT, PROJECT, GONE, LEFT] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];

function anErasure(): Directory {
  const directory = emptyDirectory();
  const erasure = {
    ...{ id: randomUUID(), tenantId: TENANT, projectId: PROJECT, sessionId: GONE, player: null, reports: [] },
    ...{
      requestedAt: 0,
      state: 'queued' as const,
      problem: null,
      hiddenAt: null,
      goneAt: null,
      logExpiresAt: 0,
    },
    ...{ sessions: [{ projectId: PROJECT, ids: [GONE] }], found: NOTHING_FOUND },
  };
  applyEntry(directory, 'erasure:e', { tenant: null, project: null, token: null, erasure });
  return directory;
}

test('an erased session is unknown although it is cached, and its id is rejected', async () => {
  const registered: string[] = [];
  const all: Pick<SessionCache, 'find' | 'register'> = {
    find: async (tenantId, projectId, ids) =>
      new Map<string, CachedSession>(
        ids.map((sessionId) => [sessionId, cachedSession(aSession({ tenantId, projectId, sessionId }))]),
      ),
    register: async (session) => {
      registered.push(session.sessionId);
      return { registered: cachedSession(session), isOwn: true };
    },
  };
  const left = visibleSessions(all as SessionCache, { current: anErasure(), caughtUp: async () => {} });
  expect([...(await left.find(TENANT, PROJECT, [GONE, LEFT])).keys()]).toEqual([LEFT]);
  expect([...(await left.find(TENANT, PROJECT, [GONE])).keys()]).toEqual([]);
  expect([...(await left.find(TENANT, randomUUID(), [GONE])).keys()]).toEqual([GONE]);
  const register = (sessionId: string) =>
    left.register(aSession({ tenantId: TENANT, projectId: PROJECT, sessionId }));
  await expect(register(GONE)).rejects.toMatchObject({ code: 'conflict' });
  await register(LEFT);
  expect(registered).toEqual([LEFT]);
});
