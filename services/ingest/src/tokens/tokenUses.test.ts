import { randomUUID } from 'node:crypto';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import { anEmptyTopic, opened } from '@questlog/runtime/directory/testing/directoryBuilders';
import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { yieldToEventLoop } from '@questlog/runtime/process/waiting';
import { TOPICS } from '@questlog/schemas/topics/topics';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { MAX_WRITES_PER_MINUTE, openTokenUses, type TokenUses } from './tokenUses.ts';

const MINUTE_MS = 60_000;
const TICK_MS = 1_000;
const NOON_MS = Date.UTC(2026, 10, 23, 12);
let nowMs: number;

beforeEach(() => {
  nowMs = NOON_MS + 12_345;
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
});

afterEach(() => {
  vi.useRealTimers();
});

test('other processes see the minute of a use once it is written, also after a restart', async () => {
  const topic = await anEmptyTopic();
  const [here, there] = [await opened(topic), await opened(topic)];
  const id = await aToken(here);
  usesOf(here).note(id);
  expect(there.current.uses.has(id)).toBe(false);

  vi.advanceTimersByTime(TICK_MS);
  await expect.poll(() => there.current.uses.get(id)?.usedAt).toBe(NOON_MS);
  expect((await opened(topic)).current.uses.get(id)?.usedAt).toBe(NOON_MS);
});

test('the uses of a minute are one record, however many there are', async () => {
  const topic = await anEmptyTopic();
  const directory = await opened(topic);
  const id = await aToken(directory);
  const uses = usesOf(directory);
  const [before = 0] = await topic.log.endOffsets(TOPICS.directory);
  for (let minute = 0; minute < 10; minute++) {
    for (let tick = 0; tick < 4; tick++) {
      for (let i = 0; i < 100; i++) uses.note(id);
      vi.advanceTimersByTime(TICK_MS);
      await expect.poll(() => directory.current.uses.get(id)?.usedAt).toBe(NOON_MS + minute * MINUTE_MS);
    }
    nowMs += MINUTE_MS;
  }
  await uses.close();

  const [after = 0] = await topic.log.endOffsets(TOPICS.directory);
  expect(after - before).toBe(10);
});

test('after a kill the last use of each of 1,000 active tokens goes back by at most a minute', async () => {
  const { directory, ids, writes } = aDirectoryOf(1_000);
  const uses = usesOf(directory);
  for (let second = 0; second < 180; second += 1) {
    for (const id of ids) uses.note(id);
    vi.advanceTimersByTime(TICK_MS);
    await yieldToEventLoop();
    // After a kill, the next process would read these uses from the directory topic.
    expect(nowMs - oldestUse(directory, ids)).toBeLessThan(MINUTE_MS + TICK_MS);
    nowMs += TICK_MS;
  }

  expect(writes.count).toBe(1_000 * 4);
});

test('writes a limited number of tokens per minute, and starts with the token that has waited longest', async () => {
  const { directory, ids, writes } = aDirectoryOf(2_500);
  const uses = usesOf(directory);
  for (let minute = 0; minute < 9; minute++) {
    const before = writes.count;
    for (let tick = 0; tick < 3; tick++) {
      for (const id of ids) uses.note(id);
      vi.advanceTimersByTime(TICK_MS);
      await yieldToEventLoop();
    }
    expect(writes.count - before).toBe(MAX_WRITES_PER_MINUTE);
    if (minute >= 2) expect(nowMs - oldestUse(directory, ids)).toBeLessThan(3 * MINUTE_MS);
    nowMs += MINUTE_MS;
  }
});

test('reports no use of a revoked token', async () => {
  const topic = await anEmptyTopic();
  const directory = await opened(topic);
  const id = await aToken(directory);
  const uses = usesOf(directory);
  uses.note(id);
  await directory.put('token', id, null);
  await uses.close();

  expect(directory.current.uses.has(id)).toBe(false);
});

test('a use waits while the log is unavailable, and a stop does not wait for the log', async () => {
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
  vi.advanceTimersByTime(TICK_MS);
  isAway = false;
  const written = () => {
    vi.advanceTimersByTime(TICK_MS);
    return directory.current.uses.get(id)?.usedAt;
  };
  await expect.poll(written).toBe(NOON_MS);

  const silent = usesOf({ ...directory, put: () => new Promise(() => {}) });
  nowMs += 10 * MINUTE_MS;
  silent.note(id);
  await silent.close();
});

function usesOf(directory: UsedDirectory): TokenUses {
  return openTokenUses(directory, { now: () => nowMs }, silentLogger);
}

type UsedDirectory = Pick<DirectoryHandle, 'current' | 'put'>;

/** Creates a directory in memory with `count` tokens. The directory writes each record after a short delay. */
function aDirectoryOf(count: number) {
  const ids = Array.from({ length: count }, (_, i) => `token-${i}`);
  const current = { tokens: new Map(ids.map((id) => [id, {}])), uses: new Map() };
  const writes = { count: 0 };
  const put = async (_: string, id: string, entity: unknown) => {
    writes.count += 1;
    await Promise.resolve();
    current.uses.set(id, entity);
  };
  return { directory: { current, put } as unknown as UsedDirectory, ids, writes };
}

function oldestUse({ current }: UsedDirectory, ids: readonly string[]): number {
  return Math.min(...ids.map((id) => current.uses.get(id)?.usedAt ?? Number.NEGATIVE_INFINITY));
}

async function aToken({ put }: DirectoryHandle): Promise<string> {
  const id = randomUUID();
  await put('token', id, {
    ...{ id, projectId: randomUUID(), sha256: id, scopes: [], expiresAt: null, createdAt: 1 },
  });
  return id;
}
