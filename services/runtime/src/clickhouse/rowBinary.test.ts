/** Tests that the bytes are RowBinary as ClickHouse documents and reads it. */
import { expect, test } from 'vitest';
import { RowBinaryWriter } from './rowBinary.ts';

function written(write: (out: RowBinaryWriter) => void, initialBytes?: number): string {
  const out = new RowBinaryWriter(initialBytes);
  write(out);
  return out.written().toString('hex');
}

test('writes a UUID as two little-endian halves, whatever the case of its digits', () => {
  const lower = '61f0c404-5cb3-11e7-907b-a6006ad3dba0';
  expect(written((out) => out.uuid(lower))).toBe('e711b35c04c4f061a0dbd36a00a67b90');
  expect(written((out) => out.uuid(lower.toUpperCase()))).toBe(written((out) => out.uuid(lower)));
  expect(written((out) => out.nullableUuid(null))).toBe('01');
});

test('writes an array of UUIDs as its length in LEB128 and the UUIDs', () => {
  const id = '61f0c404-5cb3-11e7-907b-a6006ad3dba0';
  const bytes = 'e711b35c04c4f061a0dbd36a00a67b90';
  expect(written((out) => out.array([], (uuid: string) => out.uuid(uuid)))).toBe('00');
  expect(written((out) => out.array([id, id], (uuid: string) => out.uuid(uuid)))).toBe(`02${bytes}${bytes}`);
  expect(written((out) => out.array(new Array(300).fill(id), (uuid: string) => out.uuid(uuid)))).toBe(
    `ac02${bytes.repeat(300)}`,
  );
});

test('writes integers little-endian, also beyond 32 bits', () => {
  expect(written((out) => out.uint64(2 ** 40 + 1))).toBe('0100000000010000');
  expect(written((out) => out.int64(-1n))).toBe('ffffffffffffffff');
  expect(written((out) => out.uint16(20_000))).toBe('204e');
});

test('writes a string as its length in LEB128 and its UTF-8 bytes', () => {
  expect(written((out) => out.string('é'))).toBe('02c3a9');
  expect(written((out) => out.stringBytes(Buffer.alloc(300)))).toBe(`ac02${'00'.repeat(300)}`);
});

test('grows a buffer that is too small and keeps its content', () => {
  const grown = written((out) => {
    for (let i = 0; i < 100; i++) out.string(`row ${i}`);
  }, 0);
  expect(Buffer.from(grown, 'hex').toString('utf8')).toMatch(/^.row 0.*row 99$/s);
});
