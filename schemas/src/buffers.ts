/**
 * Allocates and frees large buffers outside the garbage collector: V8 marks its whole heap for every 64 MiB of
 * external memory, which was a third of the cost of a request with 500 events.
 */

/**
 * Allocates a buffer. From 4 KiB on, the buffer has its own memory, because a buffer from Node's pool (below 32 KiB)
 * cannot be freed. Smaller buffers are cheaper from the pool.
 */
export function allocateBytes(length: number): Buffer {
  return length < MIN_SEPARATE_BYTES ? Buffer.allocUnsafe(length) : Buffer.allocUnsafeSlow(length);
}

/**
 * Frees the buffer's memory immediately. The buffer, and every other view of its memory, is empty afterwards.
 * @param bytes a buffer that is the only user of its memory; it may be shorter than the memory
 */
export function freeBytes(bytes: Buffer): void {
  const { buffer } = bytes;
  // A buffer from the pool shares its memory with other buffers.
  const isPooled = bytes.length < Buffer.poolSize / 2 && buffer.byteLength === Buffer.poolSize;
  const isFreed = bytes.length >= MIN_SEPARATE_BYTES && !isPooled && buffer instanceof ArrayBuffer;
  if (isFreed) buffer.transfer(0);
}

/**
 * Frees a chunk of a stream. A chunk that does not fill its memory stays, because the stream may still write behind
 * it.
 */
export function freeChunk(chunk: Buffer): void {
  if (chunk.length === chunk.buffer.byteLength) freeBytes(chunk);
}

const MIN_SEPARATE_BYTES = 4096;
