import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { canonicalUuid, eventId, isUuidV7, laneOf, millisOf, tailOf } from './uuid.ts';

test('an event id is a UUIDv7 that contains its milliseconds and its lane', () => {
  fc.assert(
    fc.property(
      fc.nat(2 ** 48 - 1),
      fc.nat(4095),
      fc.uint8Array({ minLength: 8, maxLength: 8 }),
      (ms, lane, tail) => {
        const id = eventId(ms, lane, Buffer.from(tail));
        expect(isUuidV7(id)).toBe(true);
        expect(millisOf(id)).toBe(ms);
        expect(laneOf(id)).toBe(lane);
      },
    ),
  );
});

test('ids of later milliseconds sort later as text', () => {
  const ids = [1, 2, 0x1000000, 0x1000001, 1_795_262_987_142].map((ms) => eventId(ms, 4095, randomBytes(8)));
  expect(ids.toSorted()).toEqual(ids);
});

test('the tail does not depend on the lane, so that the event of a key is found in any lane', () => {
  const hash = randomBytes(8);
  expect(tailOf(eventId(1, 0, hash))).toBe(tailOf(eventId(1, 4095, hash)));
});

test('accepts a UUID in any case and returns it in lower case', () => {
  expect(canonicalUuid('01A1FDE8-24A5-7FFF-A33C-3828BE34BDD9')).toBe('01a1fde8-24a5-7fff-a33c-3828be34bdd9');
});

test.each([
  '',
  'x',
  '01a1fde8-24a5-7fff-a33c-3828be34bdd',
  '{01a1fde8-24a5-7fff-a33c-3828be34bdd9}',
  '01a1fde8-24a5-7fff-a33c-3828be34bdd9\n',
])('rejects %j as a UUID', (text) => {
  expect(canonicalUuid(text)).toBeUndefined();
});
