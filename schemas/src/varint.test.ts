/** Checks varints against their definition, computed with bigints. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ByteWriter } from './byteWriter.ts';
import { VarintReader, varintSize } from './varint.ts';

const safe = fc.oneof(
  fc.nat(300),
  fc.maxSafeNat(),
  fc.constantFrom(2 ** 28 - 1, 2 ** 28, 2 ** 35, 2 ** 53 - 1),
);

function written(write: (out: ByteWriter) => void): Buffer {
  const out = new ByteWriter(0);
  write(out);
  return out.written();
}

/** Splits a number into groups of seven bits, the lowest group first. */
function leb128(value: bigint): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>= 7n) {
    bytes.push(Number(rest % 128n) + (rest >= 128n ? 128 : 0));
    if (rest < 128n) return Buffer.from(bytes);
  }
}

test('writes and reads an unsigned number as groups of seven bits', () => {
  fc.assert(
    fc.property(safe, (value) => {
      const bytes = written((out) => out.varint(value));
      expect(bytes).toEqual(leb128(BigInt(value)));
      expect(new VarintReader(bytes).varint()).toBe(value);
      if (value < 2 ** 35) expect(varintSize(value)).toBe(bytes.length);
    }),
  );
});

test('writes and reads a signed number of up to 64 bits', () => {
  const signed = fc.oneof(
    fc.maxSafeInteger().map(BigInt),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  );
  fc.assert(
    fc.property(signed, (value) => {
      const bytes = written((out) => out.bigZigzag(value));
      expect(bytes).toEqual(leb128(value < 0n ? -2n * value - 1n : 2n * value));
      const reader = new VarintReader(bytes);
      reader.zigzagHalves();
      expect((BigInt(reader.high) << 32n) | BigInt(reader.low >>> 0)).toBe(value);
      expect([reader.at, reader.isIrregular]).toEqual([bytes.length, false]);
      if (!Number.isSafeInteger(Number(value))) return;
      expect(written((out) => out.zigzag(Number(value)))).toEqual(bytes);
      expect(new VarintReader(bytes).zigzag()).toBe(Number(value));
    }),
  );
});

test('marks a number of more than 64 bits as irregular', () => {
  const reader = new VarintReader(leb128(2n ** 64n));
  reader.varint();
  expect(reader.isIrregular).toBe(true);
});

test('moves past the end of the bytes if a number is incomplete', () => {
  const reader = new VarintReader(Buffer.of(0x80));
  reader.zigzag();
  expect(reader.at).toBeGreaterThan(1);
});
