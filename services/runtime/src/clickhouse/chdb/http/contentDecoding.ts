/** Inflates a request's body: every coding that clients of ClickHouse use, also when several members follow one another. */

import { once } from 'node:events';
import type { Transform } from 'node:stream';
import zlib from 'node:zlib';
import { exceptions } from './httpErrors.ts';
import { lz4Frames } from './lz4Frames.ts';

export type ByteStream = AsyncIterable<Buffer>;

/**
 * The body as it was before compression.
 * @throws ClickHouseException when the coding is unknown, or while reading when the bytes are not of that coding
 */
export function decodeContent(source: ByteStream, coding: string): ByteStream {
  if (coding === '' || coding === 'identity') return source;
  if (coding === 'lz4') return translated(lz4Frames(source));
  const create = DECODERS.get(coding);
  if (create === undefined) throw exceptions.unknownCompression(coding);
  return translated(members(source, create));
}

async function* translated(source: ByteStream): ByteStream {
  try {
    yield* source;
  } catch (error) {
    const isBroken = error instanceof Error && 'code' in error && String(error.code).startsWith('ECONN');
    throw isBroken ? error : exceptions.cannotDecompress(error);
  }
}

/**
 * `clickhouse-connect` compresses each block of an insert by itself, and Node's zstd stream ends without an error after
 * the first member and drops the rest: an insert would lose all its blocks but one. So a new decoder is started with
 * what an ended one has left.
 */
async function* members(source: ByteStream, create: () => Inflater): ByteStream {
  let member: Member | undefined;
  try {
    for await (const chunk of source) {
      let rest = chunk;
      while (rest.length > 0) {
        const isFresh = member === undefined;
        member ??= new Member(create());
        const taken: number = yield* member.feed(rest);
        if (isFresh && member.hasEnded && taken === 0) throw new Error('unexpected bytes behind the end');
        rest = rest.subarray(taken);
        if (member.hasEnded) member = undefined;
      }
    }
    if (member !== undefined) yield* member.finish();
  } finally {
    member?.destroy();
  }
}

type Inflater = Transform & { bytesWritten: number };

/** One compressed member: a decoder, what it has given so far and whether it has come to its end. */
class Member {
  hasEnded = false;
  readonly #decoder: Inflater;
  readonly #ended: Promise<unknown>;
  #output: Buffer[] = [];

  constructor(decoder: Inflater) {
    this.#decoder = decoder;
    decoder.on('data', (chunk: Buffer) => this.#output.push(chunk));
    this.#ended = once(decoder, 'end').then(() => {
      this.hasEnded = true;
    });
    // Whoever feeds sees the error; the promise may be unobserved then.
    this.#ended.catch(() => undefined);
  }

  /** Yields what comes out, answers how many bytes went in: fewer than given when the member ends before. */
  async *feed(chunk: Buffer): AsyncGenerator<Buffer, number> {
    const before = this.#decoder.bytesWritten;
    const written = new Promise<void>((resolve) => this.#decoder.write(chunk, () => resolve()));
    await Promise.race([written, this.#ended]);
    yield* this.#drain();
    return this.#decoder.bytesWritten - before;
  }

  /** The rest, once the source has ended; throws when the member has not. */
  async *finish(): ByteStream {
    this.#decoder.end();
    await this.#ended;
    yield* this.#drain();
  }

  destroy(): void {
    this.#decoder.destroy();
  }

  *#drain(): Generator<Buffer> {
    const output = this.#output;
    this.#output = [];
    yield* output;
  }
}

const DECODERS = new Map<string, () => Inflater>([
  ['gzip', () => zlib.createGunzip()],
  ['x-gzip', () => zlib.createGunzip()],
  ['deflate', () => zlib.createInflate()],
  ['br', () => zlib.createBrotliDecompress()],
  ['zstd', () => zlib.createZstdDecompress()],
]);
