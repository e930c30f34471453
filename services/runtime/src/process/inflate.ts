/** Decompresses bodies that have a `Content-Encoding`. A body can consist of several compressed members. */
import type { Transform } from 'node:stream';
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
  gunzipSync,
  inflateSync,
  type ZstdOptions,
  zstdDecompressSync,
} from 'node:zlib';

export type ByteStream = AsyncIterable<Buffer>;

export interface InflateLimits {
  /** Maximum number of compressed members in a body. Each member needs a new decoder, except in gzip. */
  readonly maxMembers?: number;
  /** Maximum window size of zstd, as a power of two. A larger window is an error. */
  readonly maxWindowLog?: number;
  /** Probable number of bytes of the decompressed body, for example from `gzipSizeOf`. */
  readonly expectedBytes?: number | undefined;
}

export function isInflatable(coding: string): boolean {
  return DECODERS.has(coding);
}

/**
 * Returns the last field of a gzip body (RFC 1952, ISIZE): the number of bytes after decompression. The field can be wrong.
 * Undefined for other codings.
 */
export function gzipSizeOf(body: Buffer, coding: string): number | undefined {
  return DECODERS.get(coding) === GZIP && body.length > ISIZE_BYTES
    ? body.readUInt32LE(body.length - ISIZE_BYTES)
    : undefined;
}

const ISIZE_BYTES = 4;

/**
 * Decompresses a body while the consumer reads the output. Each compressed member gets a new decoder, because Node's zstd
 * stream silently drops everything after the first member.
 * @throws Error if the body is invalid.
 */
export async function* inflate(
  source: ByteStream | Iterable<Buffer>,
  coding: string,
  limits: InflateLimits = {},
): ByteStream {
  const decoder = decoderOf(coding);
  let member: Member | undefined;
  let members = 0;
  try {
    for await (const chunk of source) {
      let rest = chunk;
      while (rest.length > 0) {
        if (member === undefined && ++members > (limits.maxMembers ?? Number.POSITIVE_INFINITY)) {
          throw new Error('the body has too many members');
        }
        const isNewMember = member === undefined;
        member ??= new Member(decoder.open(limits));
        const consumed: number = yield* member.feed(rest);
        if (isNewMember && consumed === 0) throw new Error('unexpected bytes after the end');
        rest = rest.subarray(consumed);
        if (member.hasEnded) member = undefined;
      }
    }
    if (member !== undefined) yield* member.finish();
  } finally {
    member?.destroy();
  }
}

/**
 * Decompresses a small body in one call, which is faster than a stream. Returns undefined if `inflate` must decompress the
 * body, for example because the body is too large or has several members.
 */
export function inflateSmall(
  body: Buffer,
  coding: string,
  maxBytes: number,
  limits: InflateLimits = {},
): Buffer | undefined {
  if (body.length > MAX_SMALL_INPUT_BYTES) return undefined;
  try {
    const options = { maxOutputLength: maxBytes, info: true } as const;
    const whole = decoderOf(coding).decodeSync?.(body, options, limits) as SyncResult | undefined;
    return whole?.engine.bytesWritten === body.length ? whole.buffer : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Largest body that is decompressed in one call. The call blocks the process: a body of empty compressed blocks takes 10 ms
 * with 64 KiB, and seconds with 8 MiB.
 */
const MAX_SMALL_INPUT_BYTES = 16 * 1024;

function decoderOf(coding: string): Decoder {
  const decoder = DECODERS.get(coding);
  if (decoder === undefined) throw new Error(`there is no decoder for ${coding}`);
  return decoder;
}

type Inflater = Transform & { bytesWritten: number };

class Member {
  hasEnded = false;
  readonly #decoder: Inflater;
  #failure: { readonly cause: unknown } | undefined;
  #wake = (): void => {};

  constructor(decoder: Inflater) {
    this.#decoder = decoder;
    decoder.on('readable', () => this.#wake());
    decoder.on('end', () => {
      this.hasEnded = true;
      this.#wake();
    });
    decoder.on('error', (cause) => {
      this.#failure = { cause };
      this.#wake();
    });
  }

  /** Decompresses `chunk` until a compressed member ends (a body can have several). Returns the number of consumed bytes. */
  async *feed(chunk: Buffer): AsyncGenerator<Buffer, number> {
    const before = this.#decoder.bytesWritten;
    let isWritten = false;
    this.#decoder.write(chunk, () => {
      isWritten = true;
      this.#wake();
    });
    yield* this.#outputUntil(() => isWritten || this.hasEnded);
    const consumed = this.#decoder.bytesWritten - before;
    this.hasEnded ||= consumed < chunk.length;
    return consumed;
  }

  async *finish(): ByteStream {
    this.#decoder.end();
    yield* this.#outputUntil(() => this.hasEnded);
  }

  destroy(): void {
    this.#decoder.destroy();
  }

  async *#outputUntil(isOver: () => boolean): ByteStream {
    for (;;) {
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      for (let output = this.#decoder.read(); output !== null; output = this.#decoder.read()) yield output;
      if (this.#failure !== undefined) throw this.#failure.cause;
      if (isOver()) return;
      await woken;
    }
  }
}

/** Output chunks are larger than Node's pooled buffers, so that `freeChunk` can free their memory. */
const CHUNK = { chunkSize: 64 * 1024 };
/** Maximum size of an output chunk in bytes. A chunk of this size holds a whole body, unless the body is larger. */
const MAX_CHUNK_BYTES = 512 * 1024;
/** Bytes in addition to the expected bytes, because zlib needs space in the buffer when it reads the end of the body. */
const SPARE_BYTES = 64;
/** Decompresses a body into one chunk if possible, because each chunk needs a thread of Node's thread pool again. */
const oneChunk = ({ expectedBytes = 0 }: InflateLimits) => ({
  chunkSize: Math.min(Math.max(expectedBytes + SPARE_BYTES, CHUNK.chunkSize), MAX_CHUNK_BYTES),
});
const zstdOptions = ({ maxWindowLog }: InflateLimits): ZstdOptions =>
  maxWindowLog === undefined ? {} : { params: { [constants.ZSTD_d_windowLogMax]: maxWindowLog } };

interface SyncResult {
  readonly buffer: Buffer;
  readonly engine: { readonly bytesWritten: number };
}

interface Decoder {
  open(limits: InflateLimits): Inflater;
  /** Decompresses a small body in one call. Undefined for brotli, whose decoder can allocate 16 MiB even for a small body. */
  decodeSync?(body: Buffer, options: { maxOutputLength: number; info: true }, limits: InflateLimits): unknown;
}

const GZIP: Decoder = {
  open: (limits) => createGunzip(oneChunk(limits)),
  decodeSync: (body, options) => gunzipSync(body, options),
};
const DECODERS = new Map<string, Decoder>([
  ['gzip', GZIP],
  ['x-gzip', GZIP],
  [
    'deflate',
    { open: () => createInflate(CHUNK), decodeSync: (body, options) => inflateSync(body, options) },
  ],
  ['br', { open: () => createBrotliDecompress(CHUNK) }],
  [
    'zstd',
    {
      open: (limits) => createZstdDecompress({ ...CHUNK, ...zstdOptions(limits) }),
      decodeSync: (body, options, limits) => zstdDecompressSync(body, { ...options, ...zstdOptions(limits) }),
    },
  ],
]);
