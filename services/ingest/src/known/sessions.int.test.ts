/** Registering sessions at a process that does not come to read what the log has. */
import { randomUUID } from 'node:crypto';
import type { Store } from '@questlog/runtime/clickhouse/store';
import type { Principal } from '@questlog/runtime/directory/directory';
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import { heldBack } from '@questlog/runtime/log/testing/withMethods';
import { systemClock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import { expect, onTestFinished, test } from 'vitest';
import { registerSession } from '../sessions/registerSession.ts';
import { openSessions } from './sessions.ts';

const PARTITIONS = 4;
/** For what never comes: short, as the tests wait it out. */
const WAIT_MS = 100;

test('a registration that is not read back in time is Unavailable, and the same again is answered as the first', async () => {
  const { log, sessions, readOn } = await aBlindProcess();
  const deps = { sessions, clock: systemClock };
  const principal = aPrincipal();
  const wanted = { id: randomUUID(), startedAt: '2026-11-21T12:00:00Z' };
  await expect(registerSession(deps, principal, wanted)).rejects.toThrow(Unavailable);
  expect(sum(await log.endOffsets(TOPICS.sessions))).toBe(1);
  // Behind the log: nothing is appended any more, and a look-up does not wait for ever either.
  await expect(registerSession(deps, principal, wanted)).rejects.toThrow(Unavailable);
  expect(sum(await log.endOffsets(TOPICS.sessions))).toBe(1);

  readOn();
  const again = await registerSession(deps, principal, wanted);
  expect(again).toMatchObject({ status: 200, body: { id: wanted.id } });
  expect(sum(await log.endOffsets(TOPICS.sessions))).toBe(1);
});

async function aBlindProcess() {
  const log = await aLog();
  await log.ensureTopics(topicDefinitions(PARTITIONS));
  const { promise: mayRead, resolve: readOn } = Promise.withResolvers<void>();
  const sessions = await openSessions({
    log: heldBack(log, () => mayRead),
    registry: await openLogRegistry(log),
    projection: { caughtUp: async () => {}, projected: async () => Array(PARTITIONS).fill(0) },
    logger: silentLogger,
    store: emptyStore(),
    waitMs: WAIT_MS,
  });
  onTestFinished(() => {
    // A close waits for the record that is being read.
    readOn();
    return sessions.close();
  });
  return { log, sessions, readOn };
}

function aPrincipal(): Principal {
  const [tenantId, projectId] = [randomUUID(), randomUUID()];
  return {
    tenant: { id: tenantId, name: 'T', monthlySoftQuota: null, spread: 1, createdAt: 1 },
    project: { id: projectId, tenantId, name: 'P', revision: null, createdAt: 1 },
    revision: 'B',
    scopes: ['events:write'],
  };
}

function emptyStore(): Store {
  const refuse = (): Promise<never> => Promise.reject(new Error('not asked here'));
  return {
    database: 'questlog',
    query: async () => [],
    text: refuse,
    command: refuse,
    insert: refuse,
    ping: async () => true,
    close: async () => {},
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
