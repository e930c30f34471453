import type { LogRecord } from '@questlog/runtime/log/log';
import { Invalid, Unavailable } from '@questlog/runtime/process/errors';
import type { Codec } from '@questlog/runtime/registry/registry';
import { expect, test } from 'vitest';
import { decodeAll } from './writer.ts';

const records: LogRecord[] = ['good', 'broken', 'newer'].map((text, offset) => {
  return { offset, timestampMs: 0, key: null, value: Buffer.from(text), headers: {} };
});

/** Returns a codec that cannot decode `newer` while the registry is unavailable. */
function aCodec(isAway: boolean): Codec<string> {
  return {
    encode: (message) => Buffer.from(message),
    decode: async (value) => {
      const text = String(value);
      if (text === 'broken') throw new Invalid('does not decode');
      if (text === 'newer' && isAway) throw new Unavailable('the registry is away');
      return text;
    },
  };
}

test('separates records that decode from records that do not', async () => {
  const { decoded, dead } = await decodeAll(aCodec(false), records);
  expect(decoded.map(({ message }) => message)).toEqual(['good', 'newer']);
  expect(dead.map(({ record }) => record.offset)).toEqual([1]);
});

test('a block waits for an unavailable registry instead of dead-lettering records', async () => {
  await expect(decodeAll(aCodec(true), records)).rejects.toBeInstanceOf(Unavailable);
});
