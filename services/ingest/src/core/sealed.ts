/** The form of what is sealed; `places` seals it. Pure. */

export interface Seal {
  /** Another text each time, as long as the place: that nothing was written meanwhile does not show either. */
  close(place: Buffer): string;
  /** Undefined for what `close` did not make, with this deployment's secret. */
  open(text: string): Buffer | undefined;
}

/** The first byte of every sealed text; 1 was a stream's id that was not sealed. */
export const SEALED = 2;
export const NONCE_BYTES = 12;
export const TAG_BYTES = 16;
export const SEAL_BYTES = 1 + NONCE_BYTES + TAG_BYTES;
