/**
 * Decodes LZ4 frames (lz4_Frame_format.md 1.6.3), one or several in a row: what `clickhouse-connect` sends by default,
 * and what neither Node nor anything that is installed anyway can read. Checksums are skipped over, not compared: TCP
 * has compared its own, and the structure must fit to the byte.
 */

import type { ByteStream } from '../../../process/inflate.ts';

/** @throws Error when the bytes are no LZ4 frames, or end in the middle of one */
export async function* lz4Frames(source: ByteStream): ByteStream {
  const reader = new ByteReader(source);
  for (;;) {
    const start = await reader.readUpTo(4);
    if (start.length === 0) return;
    if (start.length < 4) throw new Error('an LZ4 frame ends in its magic number');
    const magic = start.readUInt32LE(0);
    if ((magic & 0xfffffff0) >>> 0 === SKIPPABLE_MAGIC) {
      await reader.read((await reader.read(4)).readUInt32LE(0));
    } else if (magic === FRAME_MAGIC) yield* frame(reader);
    else throw new Error('not an LZ4 frame');
  }
}

async function* frame(reader: ByteReader): ByteStream {
  const [flags = 0, descriptor = 0] = await reader.read(2);
  if (flags >> 6 !== 1) throw new Error('an unknown version of LZ4 frames');
  const maxBlockBytes = BLOCK_BYTES.get((descriptor >> 4) & 7);
  if (maxBlockBytes === undefined) throw new Error('an unknown size of LZ4 blocks');
  if (flags & FLAG.dictionary) throw new Error('LZ4 dictionaries are not supported');
  const contentBytes = flags & FLAG.contentSize ? (await reader.read(8)).readBigUInt64LE(0) : undefined;
  await reader.read(1);
  let history: Buffer = Buffer.alloc(0);
  let written = 0n;
  for (;;) {
    const size = (await reader.read(4)).readUInt32LE(0);
    if (size === 0) break;
    const length = size & 0x7fffffff;
    if (length > maxBlockBytes) throw new Error('an LZ4 block is longer than its frame allows');
    const block = await reader.read(length);
    const isStored = size >>> 31 === 1;
    const output: Buffer = isStored ? block : decodeBlock(block, history, maxBlockBytes);
    if (flags & FLAG.blockChecksum) await reader.read(4);
    if (!(flags & FLAG.blockIndependence)) history = lastBytes(history, output);
    written += BigInt(output.length);
    yield output;
  }
  if (flags & FLAG.contentChecksum) await reader.read(4);
  if (contentBytes !== undefined && contentBytes !== written) throw new Error('an LZ4 frame is incomplete');
}

/** A block is a row of (literals, match); a match may reach back into the blocks before it. */
function decodeBlock(block: Buffer, history: Buffer, maxBlockBytes: number): Buffer {
  const output = Buffer.allocUnsafe(history.length + maxBlockBytes);
  history.copy(output);
  let from = 0;
  let to = history.length;
  const lengthOf = (nibble: number): number => {
    let length = nibble;
    if (nibble === 15) {
      let more = 255;
      while (more === 255) {
        more = byteAt(block, from);
        from += 1;
        length += more;
      }
    }
    return length;
  };
  while (from < block.length) {
    const token = byteAt(block, from);
    from += 1;
    const literals = lengthOf(token >> 4);
    if (from + literals > block.length || to + literals > output.length) throw overrun();
    block.copy(output, to, from, from + literals);
    from += literals;
    to += literals;
    if (from === block.length) break;
    const offset = byteAt(block, from) | (byteAt(block, from + 1) << 8);
    from += 2;
    const match = lengthOf(token & 15) + MIN_MATCH;
    if (offset === 0 || offset > to || to + match > output.length) throw overrun();
    copyMatch(output, to, offset, match);
    to += match;
  }
  return output.subarray(history.length, to);
}

/** A match may overlap what it writes (a run of one byte is offset 1), so it is copied in steps of its distance. */
function copyMatch(output: Buffer, to: number, offset: number, length: number): void {
  if (length < 16) {
    for (let at = 0; at < length; at += 1) output[to + at] = output[to - offset + at] ?? 0;
    return;
  }
  const source = to - offset;
  for (let done = 0; done < length; ) {
    const step = Math.min(offset + done, length - done);
    output.copyWithin(to + done, source, source + step);
    done += step;
  }
}

function byteAt(block: Buffer, at: number): number {
  const byte = block[at];
  if (byte === undefined) throw overrun();
  return byte;
}

function overrun(): Error {
  return new Error('an LZ4 block does not fit its frame');
}

function lastBytes(history: Buffer, output: Buffer): Buffer {
  if (output.length >= WINDOW_BYTES) return output.subarray(output.length - WINDOW_BYTES);
  const both = Buffer.concat([history, output]);
  return both.subarray(Math.max(0, both.length - WINDOW_BYTES));
}

/** Exact numbers of bytes out of chunks of any size. */
class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #pending: Buffer = Buffer.alloc(0);

  constructor(source: ByteStream) {
    this.#chunks = source[Symbol.asyncIterator]();
  }

  async read(length: number): Promise<Buffer> {
    const bytes = await this.readUpTo(length);
    if (bytes.length < length) throw new Error('an LZ4 frame ends too early');
    return bytes;
  }

  async readUpTo(length: number): Promise<Buffer> {
    const parts = [this.#pending];
    let have = this.#pending.length;
    while (have < length) {
      const next = await this.#chunks.next();
      if (next.done) break;
      parts.push(next.value);
      have += next.value.length;
    }
    const all = parts.length === 1 ? this.#pending : Buffer.concat(parts);
    this.#pending = all.subarray(length);
    return all.subarray(0, length);
  }
}

const FRAME_MAGIC = 0x184d2204;
const SKIPPABLE_MAGIC = 0x184d2a50;
const MIN_MATCH = 4;
const WINDOW_BYTES = 64 * 1024;
const FLAG = {
  dictionary: 1,
  contentChecksum: 4,
  contentSize: 8,
  blockChecksum: 16,
  blockIndependence: 32,
} as const;
const BLOCK_BYTES = new Map([
  [4, 64 * 1024],
  [5, 256 * 1024],
  [6, 1024 * 1024],
  [7, 4 * 1024 * 1024],
]);
