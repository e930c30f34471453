import { describe, expect, test } from 'vitest';
import { isMistyped, newToken } from './tokenText.ts';

/** Pattern for scanners, as in docs/operating/tokens.md. */
const SCANNED = /\bqlt_[0-9A-Za-z]{44}\b/;

describe('a new token', () => {
  test('matches the pattern of scanners, and has a valid checksum', () => {
    const tokens = Array.from({ length: 200 }, newToken);

    expect(tokens.filter((token) => !SCANNED.test(token) || isMistyped(token))).toEqual([]);
    expect(new Set(tokens).size).toBe(tokens.length);
  });

  test('is mistyped if one character changes or two adjacent characters are swapped', () => {
    const token = newToken();
    for (let at = 4; at < token.length; at++) {
      const other = token[at] === 'x' ? 'y' : 'x';
      expect(isMistyped(token.slice(0, at) + other + token.slice(at + 1))).toBe(true);
      const [a = '', b = ''] = token.slice(at, at + 2);
      const swapped = token.slice(0, at) + b + a + token.slice(at + 2);
      expect(isMistyped(swapped)).toBe(a !== b && b !== '');
    }
  });

  test('has the checksum that other programs compute', () => {
    // Expected checksum from Python 3: zlib.crc32(b'qlt_' + b'0' * 38), converted to base 62.
    expect(isMistyped(`qlt_${'0'.repeat(38)}1MuS6R`)).toBe(false);
  });
});

test('a token of an earlier version, without a checksum, is never mistyped', () => {
  expect(isMistyped('qlt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA')).toBe(false);
  expect(isMistyped('anything')).toBe(false);
});
