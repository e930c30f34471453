/** Tests that packed sessions are found unchanged until they are removed. */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type CachedSession, type IndexedSession, PackedSessions } from './packedSessions.ts';

const PROJECT = '85ac27b3-4cf8-4a46-b24b-0b6ca34e27fa';
/** True in mutation tests, which run these tests once per mutant. */
const IS_MUTANT = process.env['QUESTLOG_TEST_RUNS'] === 'mutants';
/** Number of sessions. Their removal takes several steps of `remove`. */
const MANY = IS_MUTANT ? 22_000 : 100_000;
const sha256 = (name: string): Buffer => createHash('sha256').update(name).digest();

function idOf(number: number): string {
  return `00000000-0000-7000-8000-${number.toString(16).padStart(12, '0')}`;
}

function nameOf(number: number): string {
  return `${PROJECT}/${idOf(number)}`;
}

function aSession(number: number, of: Partial<CachedSession> = {}): CachedSession {
  const started = {
    startedAt: 1_763_900_000_000_000n + BigInt(number),
    content: BigInt(number),
    player: number,
    registeredAt: 1_763_900_000_000 + number,
  };
  return { sessionId: idOf(number), buildId: null, lane: number % 3, ...started, ...of };
}

function placed(number: number, of: Partial<CachedSession> = {}): IndexedSession {
  return { entity: aSession(number, of), partition: number % 2, firstOffset: number };
}

function packed(count: number, maxBytes?: number, of = (_: number): Partial<CachedSession> => ({})) {
  const sessions = new PackedSessions(sha256, maxBytes);
  for (let i = 0; i < count; i++) sessions.put(nameOf(i), placed(i, of(i)));
  return sessions;
}

function forget(sessions: PackedSessions, isGone: (partition: number, offset: number) => boolean): void {
  for (const _ of sessions.remove(isGone));
}

const entities = fc.record({
  buildId: fc.option(fc.constantFrom(idOf(1), idOf(2), idOf(3))),
  lane: fc.constantFrom(0, 1, 4_095, 2 ** 31 - 1, -(2 ** 31)),
  startedAt: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  content: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  registeredAt: fc.nat(2 ** 31 - 1).map((seconds) => seconds * 1_000 + 999),
});
const names = fc.nat(60);
const steps = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        kind: fc.constant('put' as const),
        name: names,
        entity: entities,
        partition: fc.nat(2),
        firstOffset: fc.oneof(fc.nat(30), fc.constant(Number.MAX_SAFE_INTEGER)),
      }),
    },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('get' as const), name: names }) },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('forget' as const),
        ends: fc.tuple(fc.nat(30), fc.nat(30), fc.nat(30)),
      }),
    },
  ),
  { maxLength: 200, size: 'max' },
);

/**
 * Returns hashes that put all names into one table, starting at its last slot. The hashes differ in one of the three words of
 * the key.
 */
function colliding(name: string): Buffer {
  const hash = Buffer.alloc(16, 0xff);
  const number = Number.parseInt(name.slice(-4), 16);
  hash.writeUInt32LE(0xffff_fff0 + (number % 3), 0);
  hash.writeUInt32LE(Math.floor(number / 3) % 5, 4);
  hash.writeUInt32LE(Math.floor(number / 15), 8);
  return hash;
}

test.each([
  ['spread over the tables', sha256],
  ['colliding', colliding],
])('behaves like a map for any order of operations: %s', (_, hash) => {
  fc.assert(
    fc.property(steps, (all) => {
      const sessions = new PackedSessions(hash);
      const model = new Map<string, IndexedSession>();
      for (const step of all) {
        if (step.kind === 'put') {
          const { name, partition, firstOffset } = step;
          const entity = { sessionId: idOf(name), player: name, ...step.entity };
          sessions.put(nameOf(name), { entity, partition, firstOffset });
          model.set(nameOf(name), { entity, partition, firstOffset });
        } else if (step.kind === 'get') {
          expect(sessions.get(nameOf(step.name))).toEqual(model.get(nameOf(step.name)));
        } else {
          const isGone = (partition: number, offset: number) => offset < (step.ends[partition] ?? 0);
          forget(sessions, isGone);
          for (const [name, { partition, firstOffset }] of model) {
            if (isGone(partition, firstOffset)) model.delete(name);
          }
        }
        expect(sessions.size).toBe(model.size);
      }
      for (const [name, session] of model) expect(sessions.get(name)).toEqual(session);
      forget(sessions, () => true);
      expect([sessions.size, sessions.bytes]).toEqual([0, 0]);
    }),
    { numRuns: IS_MUTANT ? 30 : 100 },
  );
});

test('a session takes about 60 bytes, including free slots, and none after its removal', () => {
  const sessions = packed(MANY);
  expect(sessions.bytes / MANY).toBeGreaterThan(52);
  expect(sessions.bytes / MANY).toBeLessThan(65);
  expect(sessions.isFull).toBe(false);
  forget(sessions, (_, offset) => offset >= MANY / 10);
  expect(sessions.size).toBe(MANY / 10);
  expect(sessions.bytes / MANY).toBeLessThan(8);
  for (let i = 0; i < MANY; i++) {
    if ((sessions.get(nameOf(i)) !== undefined) !== i < MANY / 10) expect.fail(`session ${i}`);
  }
});

test('is full by its bytes, including builds, and still accepts sessions', () => {
  const count = 2_000;
  const sameBuild = packed(count, 40 * count * 2, () => ({ buildId: idOf(0) }));
  expect(sameBuild.isFull).toBe(false);
  const eachItsBuild = packed(count, 40 * count * 2, (i) => ({ buildId: idOf(i) }));
  expect(eachItsBuild.isFull).toBe(true);
  expect(eachItsBuild.get(nameOf(count - 1))).toEqual(placed(count - 1, { buildId: idOf(count - 1) }));
  forget(eachItsBuild, (_, offset) => offset < count - 10);
  expect(eachItsBuild.isFull).toBe(false);
});

test('is full from the last allowed byte on', () => {
  const { bytes } = packed(10);
  expect([bytes, bytes + 1].map((max) => packed(10, max).isFull)).toEqual([true, false]);
});

test('a removal scans a part per step, and the next removal continues where the last one stopped', () => {
  const sessions = packed(MANY);
  const left = Array.from({ length: 5 }, () => {
    sessions.remove((partition) => partition === 0).next();
    return sessions.size;
  });
  expect(left[0]).toBeGreaterThan(Math.max(MANY - 15_000, MANY / 2));
  expect(left.at(-1)).toBe(MANY / 2);
  expect(sessions.get(nameOf(1))).toEqual(placed(1));
});
