/** The form of what is sealed; `places` seals it. Pure. */

export interface CursorCipher {
  /** Another text each time, as long as the place: that nothing was written meanwhile does not show either. */
  encrypt(position: Buffer): string;
  /** Undefined for what `close` did not make, with this deployment's secret. */
  decrypt(text: string): Buffer | undefined;
}

/** The first byte of every sealed text; 1 was a stream's id that was not sealed. */
export const FORMAT_VERSION = 2;
export const NONCE_BYTES = 12;
export const TAG_BYTES = 16;
export const OVERHEAD_BYTES = 1 + NONCE_BYTES + TAG_BYTES;
