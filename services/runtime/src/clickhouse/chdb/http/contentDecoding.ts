/**
 * Inflates a request's body: every coding that Node knows. `clickhouse-connect` compresses each block of an
 * insert by itself, so several members follow one another.
 */

import { type ByteStream, inflate, isInflatable } from '../../../process/inflate.ts';
import { exceptions } from './httpErrors.ts';

/**
 * The body as it was before compression.
 * @throws ClickHouseException when the coding is unknown, or while reading when the bytes are not of that coding
 */
export function decodeContent(source: ByteStream, coding: string): ByteStream {
  if (coding === '' || coding === 'identity') return source;
  if (!isInflatable(coding)) throw exceptions.unknownCompression(coding);
  return translated(inflate(source, coding));
}

async function* translated(source: ByteStream): ByteStream {
  try {
    yield* source;
  } catch (error) {
    const isBroken = error instanceof Error && 'code' in error && String(error.code).startsWith('ECONN');
    throw isBroken ? error : exceptions.cannotDecompress(error);
  }
}
