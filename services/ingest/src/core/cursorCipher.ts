/** Format of encrypted cursors, which `cursors/cursorCiphers.ts` encrypts. Pure. */

export interface CursorCipher {
  /** Returns a different text each time, so that equal positions look different. */
  encrypt(position: Buffer): string;
  /** Undefined for a text that `encrypt` did not create with this deployment's secret. */
  decrypt(text: string): Buffer | undefined;
}

/** First byte of every encrypted text. 1 was an unencrypted stream id. */
export const FORMAT_VERSION = 2;
export const NONCE_BYTES = 12;
export const TAG_BYTES = 16;
export const OVERHEAD_BYTES = 1 + NONCE_BYTES + TAG_BYTES;
