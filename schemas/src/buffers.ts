/**
 * Allocates and frees large buffers. Without freeing, V8 marks its whole heap for every 64 MiB of external memory. Marking was
 * a third of the cost of a request with 500 events.
 */

/** Allocates a buffer. A buffer of at least 4 KiB gets its own memory, because a buffer from Node's pool cannot be freed. */
export function allocateBytes(length: number): Buffer {
  return length < MIN_SEPARATE_BYTES ? Buffer.allocUnsafe(length) : Buffer.allocUnsafeSlow(length);
}

/** Frees the memory of a buffer. The buffer must be the only user of its memory. All views of the memory are then empty. */
export function freeBytes(bytes: Buffer): void {
  const { buffer } = bytes;
  // A buffer from the pool shares its memory with other buffers.
  const isPooled = bytes.length < Buffer.poolSize / 2 && buffer.byteLength === Buffer.poolSize;
  const isFreed = bytes.length >= MIN_SEPARATE_BYTES && !isPooled && buffer instanceof ArrayBuffer;
  if (isFreed) buffer.transfer(0);
}

/** Frees a chunk of a stream if the chunk fills its memory. Otherwise, the stream may still write to the rest of the memory. */
export function freeChunk(chunk: Buffer): void {
  if (chunk.length === chunk.buffer.byteLength) freeBytes(chunk);
}

const MIN_SEPARATE_BYTES = 4096;
