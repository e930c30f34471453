/**
 * Memory of one's own, and its end. The collector comes late, and dear: V8 marks its whole heap anew for every 64 MiB that were
 * taken outside of it, which was a third of what a request of 500 events cost.
 */

/** Node cuts buffers of less than 32 KiB from a pool, of which nobody can free a piece. Shorter than 4 KiB that costs less. */
export function allocateBytes(length: number): Buffer {
  return length < MIN_SEPARATE_BYTES ? Buffer.allocUnsafe(length) : Buffer.allocUnsafeSlow(length);
}

/**
 * Frees bytes that nobody reads any more, at once: they are empty from then on, and so is whatever else lies in their memory.
 * @param bytes in memory that was taken for them alone; they may be shorter than that
 */
export function freeBytes(bytes: Buffer): void {
  const { buffer } = bytes;
  // A piece of the pool shares its memory with others.
  const isPooled = bytes.length < Buffer.poolSize / 2 && buffer.byteLength === Buffer.poolSize;
  const isFreed = bytes.length >= MIN_SEPARATE_BYTES && !isPooled && buffer instanceof ArrayBuffer;
  if (isFreed) buffer.transfer(0);
}

/** @param chunk that a stream gave. One that does not fill its memory stays: the stream may go on writing behind it. */
export function freeChunk(chunk: Buffer): void {
  if (chunk.length === chunk.buffer.byteLength) freeBytes(chunk);
}

const MIN_SEPARATE_BYTES = 4096;
