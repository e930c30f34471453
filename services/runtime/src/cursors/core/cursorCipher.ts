/** Defines the format of encrypted cursors. */

export interface CursorCipher {
  /** Encrypts the position in a cursor. Equal positions give different texts, so that clients cannot compare positions. */
  encrypt(position: Buffer): string;
  /** Returns the decrypted position. Undefined if this deployment did not encrypt the text. */
  decrypt(text: string): Buffer | undefined;
}

/** First byte of every encrypted cursor. Older versions of Questlog marked unencrypted stream ids with 1. */
export const FORMAT_VERSION = 2;
export const NONCE_BYTES = 12;
export const TAG_BYTES = 16;
export const OVERHEAD_BYTES = 1 + NONCE_BYTES + TAG_BYTES;
