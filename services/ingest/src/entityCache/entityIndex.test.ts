/** Tests that the index agrees with the log. */
import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { type CachedSession, PackedSessions } from './core/packedSessions.ts';
import { EntityIndex, type EntityRules, type IndexBounds } from './entityIndex.ts';

interface Known {
  readonly made: string | null;
  readonly isOver: boolean;
  readonly ids?: number;
}

const P = 'project';

function aMemory(bounds?: IndexBounds): EntityIndex<Known> {
  const rules: EntityRules<Known> = {
    isVisible: () => true,
    merge: (earlier, later) =>
      earlier.made === null ? later : { ...earlier, isOver: earlier.isOver || later.isOver },
    isComplete: ({ made }) => made !== null,
    weightOf: ({ ids = 0 }) => 1 + ids,
  };
  return new EntityIndex(rules, bounds);
}

const made = (name: string): Known => ({ made: name, isOver: false });
const OVER: Known = { made: null, isOver: true };
const at = (entity: Known, offset: number) => ({ entity, partition: 0, offset });

function found(memory: EntityIndex<Known>, id: string): Known | undefined {
  const all = new Map<string, Known>();
  memory.collect(P, [id], all);
  return all.get(id);
}

test('keeps the first of two records with one id, and its offset', () => {
  const memory = aMemory();
  memory.putRecord(P, 'a', at(made('first'), 3));
  memory.putRecord(P, 'a', at(made('second'), 4));
  expect(found(memory, 'a')).toEqual(made('first'));
  expect(memory.get(P, 'a')?.firstOffset).toBe(3);
});

test('separates equal ids of different projects', () => {
  const memory = aMemory();
  memory.putRecord('other', 'a', at(made('first'), 3));
  expect(found(memory, 'a')).toBeUndefined();
});

test('adds later changes to a known entity', () => {
  const memory = aMemory();
  memory.putRecord(P, 'a', at(made('first'), 3));
  expect(memory.putRecord(P, 'a', at(OVER, 4))).toEqual({ made: 'first', isOver: true });
});

test('ignores changes before the first record, and still recognizes the first record', () => {
  const memory = aMemory();
  memory.putRecord(P, 'a', at(OVER, 3));
  memory.putRecord(P, 'a', at(made('first'), 4));
  expect(found(memory, 'a')).toEqual(made('first'));
  expect(memory.get(P, 'a')?.firstOffset).toBe(4);
});

test('looks up an entity of which only the end was read, and merges the end', () => {
  const memory = aMemory();
  memory.putRecord(P, 'a', at(OVER, 3));
  expect(found(memory, 'a')).toBeUndefined();
  expect(memory.putStored(P, 'a', made('stored'))).toEqual({ made: 'stored', isOver: true });
  expect(found(memory, 'a')).toEqual({ made: 'stored', isOver: true });
});

test('a lookup does not hide records that the tail read meanwhile', () => {
  const memory = aMemory();
  memory.putStored(P, 'a', made('stored'));
  memory.putRecord(P, 'a', at(OVER, 9));
  memory.putStored(P, 'a', made('stored'));
  expect(found(memory, 'a')).toEqual({ made: 'stored', isOver: true });
});

test('evicts only projected entities above the limit', () => {
  const memory = aMemory();
  const bound = 100_000;
  for (let i = 0; i < bound; i++) memory.putRecord(P, `${i}`, at(made(`${i}`), i));
  memory.projected = [3];
  for (let i = 0; i < 10; i++) memory.putRecord(P, `new ${i}`, at(made('new'), bound + i));
  const kept = Array.from({ length: 5 }, (_, i) => found(memory, `${i}`) !== undefined);
  expect(kept).toEqual([false, false, false, true, true]);
});

test('keeps recently used entities above the limit', () => {
  const memory = aMemory();
  const bound = 100_000;
  for (let i = 0; i < bound; i++) memory.putStored(P, `${i}`, made(`${i}`));
  memory.projected = [1];
  expect(found(memory, '0')).toBeDefined();
  for (let i = 0; i < 10; i++) memory.putStored(P, `new ${i}`, made('new'));
  expect([found(memory, '0'), found(memory, '1')]).toEqual([made('0'), undefined]);
});

test('counts a heavy entry by its weight, and evicts light ones for it', () => {
  const memory = aMemory();
  const bound = 100_000;
  const heavy = { ...made('heavy'), ids: 99 };
  for (let i = 0; i < bound / 2; i++) memory.putStored(P, `${i}`, made(`${i}`));
  memory.projected = [1];
  for (let i = 0; i < bound / 200; i++) memory.putStored(P, `heavy ${i}`, heavy);
  const kept = () =>
    Array.from({ length: bound / 2 }, (_, i) => memory.get(P, `${i}`)).filter(Boolean).length;
  expect(kept()).toBe(bound / 2);

  memory.putStored(P, 'one more', heavy);
  expect(kept()).toBe(bound / 2 - 100);
  memory.putStored(P, 'one more', made('light'));
  memory.putStored(P, 'another', { ...heavy, ids: 98 });
  expect(kept()).toBe(bound / 2 - 100);
});

test('keeps all entities of the log while ClickHouse is unavailable, and limits registrations', () => {
  const memory = aMemory({ maxWeight: 4, maxUnprojectedWeight: 10 });
  for (let i = 0; i < 10; i++) {
    expect(memory.isFull).toBe(false);
    memory.putRecord(P, `${i}`, { entity: made('a'), partition: i % 2, offset: i });
  }
  expect(memory.isFull).toBe(true);
  memory.putRecord(P, 'of another process', at(made('a'), 10));
  expect(found(memory, 'of another process')).toBeDefined();
  // The entity of a lookup evicts nothing, and is not kept.
  memory.putStored(P, 'looked up', made('stored'));
  expect(found(memory, 'looked up')).toBeUndefined();

  // One partition is projected. The other partition is not projected.
  memory.evictProjected([11, 0]);
  expect(memory.isFull).toBe(false);
  expect([found(memory, '0'), found(memory, '1')]).toEqual([undefined, made('a')]);
});

test('does not treat records after a truncation as projected', () => {
  const memory = aMemory({ maxWeight: 1, maxUnprojectedWeight: 10 });
  memory.projected = [100];
  memory.onTruncated({ topic: 'reports', partition: 0, offset: 50 });
  for (const id of ['a', 'b', 'c']) memory.putRecord(P, id, at(made(id), 50));
  expect(['a', 'b', 'c'].map((id) => found(memory, id))).toEqual(['a', 'b', 'c'].map(made));
});

test('a truncation removes the lost entities of its partition, and keeps stored ones', () => {
  const memory = aMemory();
  memory.putStored(P, 'stored', made('stored'));
  memory.putStored(P, 'stored and over', made('stored'));
  memory.putRecord(P, 'stored and over', at(OVER, 5));
  memory.putRecord(P, 'before', at(made('before'), 4));
  memory.putRecord(P, 'behind', at(made('behind'), 5));
  memory.putRecord(P, 'elsewhere', { entity: made('elsewhere'), partition: 1, offset: 5 });
  memory.onTruncated({ topic: 'reports', partition: 0, offset: 5 });
  const names = ['stored', 'stored and over', 'before', 'behind', 'elsewhere'];
  expect(names.filter((id) => found(memory, id) !== undefined)).toEqual(['stored', 'before', 'elsewhere']);
});

describe('of sessions', () => {
  const aSession = (sessionId: string, content = 0n): CachedSession => {
    return { sessionId, buildId: 'build', lane: 3, startedAt: 7n, registeredAt: 8, player: 5, content };
  };
  const sessionsMemory = (bounds: IndexBounds) =>
    new EntityIndex<CachedSession>(
      {
        isVisible: () => true,
        merge: (earlier) => earlier,
        isComplete: () => true,
        weightOf: () => 1,
        packed: new PackedSessions(
          (name) => createHash('sha256').update(name).digest(),
          bounds.maxPackedBytes,
        ),
      },
      bounds,
    );
  const foundOf = (memory: EntityIndex<CachedSession>, ids: readonly string[]): CachedSession[] => {
    const all = new Map<string, CachedSession>();
    memory.collect(P, ids, all);
    return [...all.values()];
  };
  const read = (memory: EntityIndex<CachedSession>, count: number): string[] => {
    const ids = Array.from({ length: count }, (_, i) => `${i}`);
    ids.forEach((id, i) => {
      memory.putRecord(P, id, { entity: aSession(id), partition: i % 2, offset: i });
    });
    return ids;
  };

  test('packs unprojected sessions above the limit, and removes them after they are projected', () => {
    const memory = sessionsMemory({ maxWeight: 2, maxUnprojectedWeight: 2, maxPackedBytes: 12_000 });
    const ids = read(memory, 100);
    expect(foundOf(memory, ids)).toEqual(ids.map((id) => aSession(id)));
    expect(memory.get(P, '7')?.firstOffset).toBe(7);
    expect(memory.isFull).toBe(false);

    // The entity of a lookup evicts nothing.
    memory.putStored(P, 'stored', aSession('stored'));
    expect(foundOf(memory, ids).length).toBe(100);

    memory.evictProjected([90, 0]);
    const left = ids.filter((_, i) => i % 2 === 1 || i >= 90);
    expect(foundOf(memory, ids.slice(0, 98))).toEqual(left.slice(0, -2).map((id) => aSession(id)));
  });

  test('limits registrations, but not the tail, by the bytes of packed sessions', () => {
    const memory = sessionsMemory({ maxWeight: 2, maxUnprojectedWeight: 2, maxPackedBytes: 12_000 });
    const ids = read(memory, 300);
    expect(memory.isFull).toBe(true);
    expect(foundOf(memory, ids).length).toBe(300);
    memory.evictProjected([100, 100]);
    memory.evictProjected([200, 200]);
    expect(memory.isFull).toBe(false);
  });

  test('a packed session keeps its first record, also if it is read again', () => {
    const memory = sessionsMemory({ maxWeight: 2, maxUnprojectedWeight: 2 });
    const ids = read(memory, 10);
    const repeat = { entity: aSession('0', 99n), partition: 0, offset: 10 };
    expect(memory.putRecord(P, '0', repeat)).toEqual(aSession('0'));
    expect(foundOf(memory, ids)[0]).toEqual(aSession('0'));
    expect(memory.get(P, '0')?.firstOffset).toBe(0);
    // ClickHouse has a record from a lower offset.
    memory.putStored(P, '0', aSession('0', 5n));
    expect(foundOf(memory, ['0'])).toEqual([aSession('0', 5n)]);
  });

  test('a truncation removes packed sessions, and keeps the sessions that replace them', () => {
    const memory = sessionsMemory({ maxWeight: 2, maxUnprojectedWeight: 2 });
    const ids = read(memory, 100);
    memory.projected = [50, 0];
    memory.onTruncated({ topic: 'reports', partition: 0, offset: 20 });
    const left = ids.filter((_, i) => i % 2 === 1 || i < 20);
    expect(foundOf(memory, ids)).toEqual(left.map((id) => aSession(id)));
    for (let i = 20; i < 40; i++) {
      memory.putRecord(P, `new ${i}`, { entity: aSession(`new ${i}`), partition: 0, offset: i });
    }
    memory.evictProjected([20, 0]);
    expect(foundOf(memory, ['new 20', 'new 39']).length).toBe(2);
  });

  test('keeps a session if a truncation removes only its second record', () => {
    const memory = sessionsMemory({ maxWeight: 2, maxUnprojectedWeight: 2 });
    memory.putRecord(P, 'a', { entity: aSession('a'), partition: 0, offset: 5 });
    memory.putRecord(P, 'a', { entity: aSession('a'), partition: 0, offset: 9 });
    memory.onTruncated({ topic: 'reports', partition: 0, offset: 7 });
    expect(foundOf(memory, ['a'])).toEqual([aSession('a')]);
  });
});
