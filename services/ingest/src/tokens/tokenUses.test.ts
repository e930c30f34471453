import { randomUUID } from 'node:crypto';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import { anEmptyTopic, opened } from '@questlog/runtime/directory/testing/directoryBuilders';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openTokenUses, type TokenUses } from './tokenUses.ts';

const MINUTE_MS = 60_000;
const NOON_MS = Date.UTC(2026, 10, 23, 12);
let nowMs: number;

beforeEach(() => {
  nowMs = NOON_MS + 12_345;
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
});

afterEach(() => {
  vi.useRealTimers();
});

test('a use is known at once to the minute, to the other ingests once it is told, and to the next start', async () => {
  const topic = await anEmptyTopic();
  const [here, there] = [await opened(topic), await opened(topic)];
  const id = await aToken(here);
  const [uses, elsewhere] = [usesOf(here), usesOf(there)];
  uses.note(id);
  expect([uses.lastUsedAt(id), elsewhere.lastUsedAt(id)]).toEqual([NOON_MS, null]);

  vi.advanceTimersByTime(MINUTE_MS);
  await expect.poll(() => elsewhere.lastUsedAt(id)).toBe(NOON_MS);
  expect(usesOf(await opened(topic)).lastUsedAt(id)).toBe(NOON_MS);
});

test('the uses of an hour are a record in five minutes, however many there are', async () => {
  const topic = await anEmptyTopic();
  const directory = await opened(topic);
  const id = await aToken(directory);
  const uses = usesOf(directory);
  const [before = 0] = await topic.log.endOffsets(TOPICS.directory);
  for (let minute = 0; minute < 60; minute++) {
    for (let i = 0; i < 100; i++) uses.note(id);
    vi.advanceTimersByTime(MINUTE_MS);
    const due = NOON_MS + Math.floor(minute / 5) * 5 * MINUTE_MS;
    await expect.poll(() => directory.current.uses.get(id)?.usedAt).toBe(due);
    nowMs += MINUTE_MS;
  }
  await uses.close();

  // Twelve, and what a stop tells of the last minutes.
  const [after = 0] = await topic.log.endOffsets(TOPICS.directory);
  expect(after - before).toBe(13);
  expect(directory.current.uses.get(id)?.usedAt).toBe(nowMs - 12_345 - MINUTE_MS);
});

test('of a revoked token nothing is told any more', async () => {
  const topic = await anEmptyTopic();
  const directory = await opened(topic);
  const id = await aToken(directory);
  const uses = usesOf(directory);
  uses.note(id);
  await directory.put('token', id, null);
  await uses.close();

  expect(directory.current.uses.has(id)).toBe(false);
});

test('while the log is away a use waits, and a stop does not wait for the log', async () => {
  const topic = await anEmptyTopic();
  const directory = await opened(topic);
  const id = await aToken(directory);
  let isAway = true;
  const put: DirectoryHandle['put'] = async (...entity) => {
    if (isAway) throw new Unavailable('the log is away');
    await directory.put(...entity);
  };
  const uses = usesOf({ ...directory, put });
  uses.note(id);
  vi.advanceTimersByTime(MINUTE_MS);
  isAway = false;
  const usedAt = () => {
    vi.advanceTimersByTime(MINUTE_MS);
    return directory.current.uses.get(id)?.usedAt;
  };
  await expect.poll(usedAt).toBe(NOON_MS);

  const silent = usesOf({ ...directory, put: () => new Promise(() => {}) });
  nowMs += 10 * MINUTE_MS;
  silent.note(id);
  await silent.close();
});

function usesOf(directory: DirectoryHandle): TokenUses {
  return openTokenUses({ directory, clock: { now: () => nowMs }, logger: silentLogger });
}

async function aToken({ put }: DirectoryHandle): Promise<string> {
  const id = randomUUID();
  await put('token', id, {
    ...{ id, projectId: randomUUID(), sha256: id, scopes: [], expiresAt: null, createdAt: 1 },
  });
  return id;
}
