/** Where a page of a session's events ended, as opaque text. Pure. */

export interface Cursor {
  /** `occurredAt` in microseconds; 64-bit numbers stay text. */
  readonly micros: string;
  readonly partition: number;
  readonly offset: string;
  readonly index: number;
}

const FORM = /^(-?\d{1,17})\.(\d{1,9})\.(\d{1,16})\.(\d{1,9})$/;

export function formatCursor({ micros, partition, offset, index }: Cursor): string {
  return Buffer.from(`${micros}.${partition}.${offset}.${index}`, 'latin1').toString('base64url');
}

/** Undefined for a text that `formatCursor` did not make. */
export function parseCursor(text: string): Cursor | undefined {
  const parts = FORM.exec(Buffer.from(text, 'base64url').toString('latin1'));
  const [, micros, partition, offset, index] = parts ?? [];
  if (micros === undefined || partition === undefined || offset === undefined || index === undefined)
    return undefined;
  return { micros, partition: Number(partition), offset, index: Number(index) };
}
