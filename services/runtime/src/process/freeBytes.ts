/**
 * Frees large bytes that nobody reads any more, at once: they are empty from then on, and so is whatever else lies in their
 * memory. The collector comes late, and dear: V8 marks its whole heap anew for every 64 MiB that were taken outside of it,
 * which was a third of what a request of 500 events cost.
 */

/** @param bytes in memory that was taken for them alone; they may be shorter than that */
export function freeBytes(bytes: Buffer): void {
  const { buffer } = bytes;
  // What Node cuts from its pool, which is what is shorter than half of one, shares memory with others.
  const isPooled = bytes.length < Buffer.poolSize / 2 && buffer.byteLength === Buffer.poolSize;
  const isFreed = bytes.length >= LEAST_FREED && !isPooled && buffer instanceof ArrayBuffer;
  if (isFreed) buffer.transfer(0);
}

/** @param chunk that a stream gave. One that does not fill its memory stays: the stream may go on writing behind it. */
export function freeChunk(chunk: Buffer): void {
  if (chunk.length === chunk.buffer.byteLength) freeBytes(chunk);
}

/** Fewer cost less than the call. */
const LEAST_FREED = 4096;
