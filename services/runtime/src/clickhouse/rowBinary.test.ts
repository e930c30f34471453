/** The bytes of RowBinary, as ClickHouse documents and reads them. */
import { expect, test } from 'vitest';
import { RowBinaryWriter } from './rowBinary.ts';

function written(write: (out: RowBinaryWriter) => void, initialBytes?: number): string {
  const out = new RowBinaryWriter(initialBytes);
  write(out);
  return out.bytes().toString('hex');
}

test('a UUID is its two halves, each with its last byte first, whatever the case of its digits', () => {
  const lower = '61f0c404-5cb3-11e7-907b-a6006ad3dba0';
  expect(written((out) => out.uuid(lower))).toBe('e711b35c04c4f061a0dbd36a00a67b90');
  expect(written((out) => out.uuid(lower.toUpperCase()))).toBe(written((out) => out.uuid(lower)));
  expect(written((out) => out.nullableUuid(null))).toBe('01');
});

test('an array of UUIDs is its length as LEB128 and the UUIDs', () => {
  const id = '61f0c404-5cb3-11e7-907b-a6006ad3dba0';
  const bytes = 'e711b35c04c4f061a0dbd36a00a67b90';
  expect(written((out) => out.array([], (uuid: string) => out.uuid(uuid)))).toBe('00');
  expect(written((out) => out.array([id, id], (uuid: string) => out.uuid(uuid)))).toBe(`02${bytes}${bytes}`);
  expect(written((out) => out.array(new Array(300).fill(id), (uuid: string) => out.uuid(uuid)))).toBe(
    `ac02${bytes.repeat(300)}`,
  );
});

test('integers are little-endian, beyond 32 bits too', () => {
  expect(written((out) => out.uint64(2 ** 40 + 1))).toBe('0100000000010000');
  expect(written((out) => out.int64(-1n))).toBe('ffffffffffffffff');
  expect(written((out) => out.uint16(20_000))).toBe('204e');
});

test('a string is its length as LEB128 and its bytes in UTF-8', () => {
  expect(written((out) => out.string('é'))).toBe('02c3a9');
  expect(written((out) => out.stringBytes(Buffer.alloc(300)))).toBe(`ac02${'00'.repeat(300)}`);
});

test('a buffer that is too small grows and keeps what is in it', () => {
  const grown = written((out) => {
    for (let i = 0; i < 100; i++) out.string(`row ${i}`);
  }, 0);
  expect(Buffer.from(grown, 'hex').toString('utf8')).toMatch(/^.row 0.*row 99$/s);
});
