/**
 * The text of an access token: `qlt_`, 38 random letters and digits, and a checksum of six, so that scanners know one in a
 * repository without asking anybody, and a mistyped one is told from an unknown one. Tokens of earlier versions have 43
 * characters behind the prefix and no checksum; they go on being valid.
 */
import { randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { PROJECT_TOKEN } from '@questlog/schemas/tokenPrefixes';

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 226 bits. */
const RANDOM_DIGITS = 38;
/** As many as 32 bits take. */
const CHECKSUM_DIGITS = 6;
/** As `newToken` makes them. */
const WITH_CHECKSUM = /^qlt_[0-9A-Za-z]{44}$/;

export function newToken(): string {
  const random = Array.from({ length: RANDOM_DIGITS }, () => DIGITS[randomInt(DIGITS.length)]).join('');
  return PROJECT_TOKEN + random + checksumOf(PROJECT_TOKEN + random);
}

/** Whether a character of it is another one than it was made with. */
export function isMistyped(token: string): boolean {
  return WITH_CHECKSUM.test(token) && !token.endsWith(checksumOf(token.slice(0, -CHECKSUM_DIGITS)));
}

/** CRC-32 of the text before it, in base 62, the highest digit first. */
function checksumOf(text: string): string {
  let digits = '';
  for (let left = crc32(text); digits.length < CHECKSUM_DIGITS; left = Math.floor(left / DIGITS.length)) {
    digits = DIGITS.charAt(left % DIGITS.length) + digits;
  }
  return digits;
}
