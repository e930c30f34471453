/** Format of encrypted cursors. The module `cursors/cursorCiphers.ts` encrypts them. Pure. */

export interface CursorCipher {
  /** Returns a different text each time, so that equal positions look different. */
  encrypt(position: Buffer): string;
  /** Returns the position. Undefined if `encrypt` did not create the text with this deployment's secret. */
  decrypt(text: string): Buffer | undefined;
}

/** First byte of every encrypted text. The value 1 stood for unencrypted stream ids. */
export const FORMAT_VERSION = 2;
export const NONCE_BYTES = 12;
export const TAG_BYTES = 16;
export const OVERHEAD_BYTES = 1 + NONCE_BYTES + TAG_BYTES;
