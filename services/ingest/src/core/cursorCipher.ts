/** Defines the format of encrypted cursors. */

export interface CursorCipher {
  /** Encrypts a position. Repeated calls return different texts, so that clients cannot recognize equal positions. */
  encrypt(position: Buffer): string;
  /** Decrypts a position. Undefined if the text was not encrypted with the secret of this deployment. */
  decrypt(text: string): Buffer | undefined;
}

/** First byte of every encrypted cursor. Older versions of Questlog used the value 1 for unencrypted stream ids. */
export const FORMAT_VERSION = 2;
export const NONCE_BYTES = 12;
export const TAG_BYTES = 16;
export const OVERHEAD_BYTES = 1 + NONCE_BYTES + TAG_BYTES;
