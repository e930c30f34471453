/**
 * Generates access tokens: `qlt_`, 38 random letters and digits, and a checksum of 6 digits. With the checksum, secret scanners
 * recognize tokens, and ingest detects typing errors.
 */
import { randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { PROJECT_TOKEN } from '@questlog/schemas/tokenPrefixes';

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** Number of random characters of a token. The characters contain 226 random bits. */
const RANDOM_DIGITS = 38;
const CHECKSUM_DIGITS = 6;
const WITH_CHECKSUM = /^qlt_[0-9A-Za-z]{44}$/;

export function newToken(): string {
  const random = Array.from({ length: RANDOM_DIGITS }, () => DIGITS[randomInt(DIGITS.length)]).join('');
  return PROJECT_TOKEN + random + checksumOf(PROJECT_TOKEN + random);
}

export function isMistyped(token: string): boolean {
  return WITH_CHECKSUM.test(token) && !token.endsWith(checksumOf(token.slice(0, -CHECKSUM_DIGITS)));
}

/** Returns the CRC-32 in base 62, starting with the most significant digit. */
function checksumOf(text: string): string {
  let digits = '';
  for (let left = crc32(text); digits.length < CHECKSUM_DIGITS; left = Math.floor(left / DIGITS.length)) {
    digits = DIGITS.charAt(left % DIGITS.length) + digits;
  }
  return digits;
}
