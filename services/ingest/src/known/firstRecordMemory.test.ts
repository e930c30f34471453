/** The memory agrees with the log: the first record of an id, and its later changes. */
import { expect, test } from 'vitest';
import { type EntityRules, FirstRecordMemory, type MemoryBounds } from './firstRecordMemory.ts';

interface Known {
  readonly made: string | null;
  readonly isOver: boolean;
  readonly ids?: number;
}

const P = 'project';

function aMemory(bounds?: MemoryBounds): FirstRecordMemory<Known> {
  const rules: EntityRules<Known> = {
    merge: (earlier, later) =>
      earlier.made === null ? later : { ...earlier, isOver: earlier.isOver || later.isOver },
    isWhole: ({ made }) => made !== null,
    weightOf: ({ ids = 0 }) => 1 + ids,
  };
  return new FirstRecordMemory(rules, bounds);
}

const made = (name: string): Known => ({ made: name, isOver: false });
const OVER: Known = { made: null, isOver: true };
const at = (entity: Known, offset: number) => ({ entity, partition: 0, offset });

function found(memory: FirstRecordMemory<Known>, id: string): Known | undefined {
  const all = new Map<string, Known>();
  memory.collect(P, [id], all);
  return all.get(id);
}

test('the first of two records of one id counts, and its offset tells whose it was', () => {
  const memory = aMemory();
  memory.putRecord(P, 'a', at(made('first'), 3));
  memory.putRecord(P, 'a', at(made('second'), 4));
  expect(found(memory, 'a')).toEqual(made('first'));
  expect(memory.get(P, 'a')?.firstOffset).toBe(3);
});

test('an id of another project is another id', () => {
  const memory = aMemory();
  memory.putRecord('other', 'a', at(made('first'), 3));
  expect(found(memory, 'a')).toBeUndefined();
});

test('adds later changes to a known entity', () => {
  const memory = aMemory();
  memory.putRecord(P, 'a', at(made('first'), 3));
  expect(memory.putRecord(P, 'a', at(OVER, 4))).toEqual({ made: 'first', isOver: true });
});

test('ignores changes before the first record, and still recognises the first record', () => {
  const memory = aMemory();
  memory.putRecord(P, 'a', at(OVER, 3));
  memory.putRecord(P, 'a', at(made('first'), 4));
  expect(found(memory, 'a')).toEqual(made('first'));
  expect(memory.get(P, 'a')?.firstOffset).toBe(4);
});

test('an entity of which only the end was read is looked up, and ends', () => {
  const memory = aMemory();
  memory.putRecord(P, 'a', at(OVER, 3));
  expect(found(memory, 'a')).toBeUndefined();
  expect(memory.putStored(P, 'a', made('stored'))).toEqual({ made: 'stored', isOver: true });
  expect(found(memory, 'a')).toEqual({ made: 'stored', isOver: true });
});

test('a look-up does not hide records that the tail read meanwhile', () => {
  const memory = aMemory();
  memory.putStored(P, 'a', made('stored'));
  memory.putRecord(P, 'a', at(OVER, 9));
  memory.putStored(P, 'a', made('stored'));
  expect(found(memory, 'a')).toEqual({ made: 'stored', isOver: true });
});

test('beyond its bound it forgets only what ClickHouse has', () => {
  const memory = aMemory();
  const bound = 100_000;
  for (let i = 0; i < bound; i++) memory.putRecord(P, `${i}`, at(made(`${i}`), i));
  memory.projected = [3];
  for (let i = 0; i < 10; i++) memory.putRecord(P, `new ${i}`, at(made('new'), bound + i));
  const kept = Array.from({ length: 5 }, (_, i) => found(memory, `${i}`) !== undefined);
  expect(kept).toEqual([false, false, false, true, true]);
});

test('beyond its bound what was asked for lately stays', () => {
  const memory = aMemory();
  const bound = 100_000;
  for (let i = 0; i < bound; i++) memory.putStored(P, `${i}`, made(`${i}`));
  memory.projected = [1];
  expect(found(memory, '0')).toBeDefined();
  for (let i = 0; i < 10; i++) memory.putStored(P, `new ${i}`, made('new'));
  expect([found(memory, '0'), found(memory, '1')]).toEqual([made('0'), undefined]);
});

test('a heavy entry counts by its weight, and evicts light ones', () => {
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

test('while ClickHouse is away all that the log brings stays, and there is an end to what is registered', () => {
  const memory = aMemory({ kept: 4, held: 10 });
  for (let i = 0; i < 10; i++) {
    expect(memory.isOverfull).toBe(false);
    memory.putRecord(P, `${i}`, { entity: made('a'), partition: i % 2, offset: i });
  }
  expect(memory.isOverfull).toBe(true);
  memory.putRecord(P, 'of another process', at(made('a'), 10));
  expect(found(memory, 'of another process')).toBeDefined();
  // A look-up would push nothing out, and stay itself.
  memory.putStored(P, 'looked up', made('stored'));
  expect(found(memory, 'looked up')).toBeUndefined();

  // One partition is projected, the other is not: nobody waits for that one.
  memory.makeRoom([11, 0]);
  expect(memory.isOverfull).toBe(false);
  expect([found(memory, '0'), found(memory, '1')]).toEqual([undefined, made('a')]);
});

test('what comes behind a cut is not taken for projected, though the log had been projected further', () => {
  const memory = aMemory({ kept: 1, held: 10 });
  memory.projected = [100];
  memory.cut(0, 50);
  for (const id of ['a', 'b', 'c']) memory.putRecord(P, id, at(made(id), 50));
  expect(['a', 'b', 'c'].map((id) => found(memory, id))).toEqual(['a', 'b', 'c'].map(made));
});

test('what was read behind a cut is forgotten, in its partition only, and what ClickHouse told stays', () => {
  const memory = aMemory();
  memory.putStored(P, 'stored', made('stored'));
  memory.putStored(P, 'stored and over', made('stored'));
  memory.putRecord(P, 'stored and over', at(OVER, 5));
  memory.putRecord(P, 'before', at(made('before'), 4));
  memory.putRecord(P, 'behind', at(made('behind'), 5));
  memory.putRecord(P, 'elsewhere', { entity: made('elsewhere'), partition: 1, offset: 5 });
  memory.cut(0, 5);
  const names = ['stored', 'stored and over', 'before', 'behind', 'elsewhere'];
  expect(names.filter((id) => found(memory, id) !== undefined)).toEqual(['stored', 'before', 'elsewhere']);
});
