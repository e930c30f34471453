/**
 * Writes a response in ClickHouse's own compression, which clients request with `compress=1`. Clients must support LZ4, but Node
 * has no LZ4. The blocks are therefore valid LZ4 without compression. This costs nothing on the loopback interface.
 */
import type { ByteStream } from '../../../process/inflate.ts';
import { cityHash128 } from './cityHash.ts';

/** Yields a block for each chunk. */
export async function* compressedBlocks(source: ByteStream): ByteStream {
  for await (const chunk of source) {
    for (let at = 0; at < chunk.length; at += MAX_BLOCK_BYTES) {
      yield compressedBlock(chunk.subarray(at, at + MAX_BLOCK_BYTES));
    }
  }
}

/** Clients reject blocks of more than 128 MiB. The server's own blocks have 1 MiB. */
const MAX_BLOCK_BYTES = 1024 * 1024;

/** Returns a checksum of 16 bytes, a header of 9 bytes (method, size with the header, size of the data), and the data as LZ4. */
function compressedBlock(data: Buffer): Buffer {
  const literals = literalsHeader(data.length);
  const size = HEADER_BYTES + literals.length + data.length;
  const block = Buffer.allocUnsafe(CHECKSUM_BYTES + size);
  block.writeUInt8(LZ4, CHECKSUM_BYTES);
  block.writeUInt32LE(size, CHECKSUM_BYTES + 1);
  block.writeUInt32LE(data.length, CHECKSUM_BYTES + 5);
  literals.copy(block, CHECKSUM_BYTES + HEADER_BYTES);
  data.copy(block, CHECKSUM_BYTES + HEADER_BYTES + literals.length);
  cityHash128(block.subarray(CHECKSUM_BYTES)).copy(block);
  return block;
}

const CHECKSUM_BYTES = 16;
const HEADER_BYTES = 9;
const LZ4 = 0x82;

/** Returns the start of an LZ4 block that consists of one sequence without a match (LZ4 block format, "last sequence"). */
function literalsHeader(count: number): Buffer {
  if (count < 15) return Buffer.of(count << 4);
  const rest = count - 15;
  const header = Buffer.alloc(2 + Math.floor(rest / 255), 255);
  header[0] = 0xf0;
  header[header.length - 1] = rest % 255;
  return header;
}
