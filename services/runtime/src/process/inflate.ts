/** Inflates what a Content-Encoding has compressed, also where several members follow one another. */
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
  /** Each takes a decoder; only gzip's own reads on behind its first member. */
  readonly maxMembers?: number;
  /** Of zstd, the power of two; a frame that wants a larger window is an error. */
  readonly maxWindowLog?: number;
}

export function isInflatable(coding: string): boolean {
  return DECODERS.has(coding);
}

/**
 * Pulls: nothing is inflated that nobody has asked for. Node's zstd stream ends without an error behind the first member
 * and drops the rest, so a new decoder is started with what an ended one has left.
 * @throws Error where the bytes are not of the coding, to the last one.
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
          throw new Error('there are too many members');
        }
        const isNewMember = member === undefined;
        member ??= new Member(decoder.open(limits));
        const consumed: number = yield* member.feed(rest);
        if (isNewMember && consumed === 0) throw new Error('unexpected bytes behind the end');
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
 * A small body, at once: a stream costs it several turns of the event loop. Undefined where more than `maxBytes` come out,
 * where so many go in that the loop would stand still (blocks may be empty), where the bytes are not one whole member, or in
 * brotli: `inflate` tells what they are.
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

/** 64 KiB of empty blocks take 10 ms, 8 MiB of them seconds. */
const MAX_SMALL_INPUT_BYTES = 16 * 1024;

function decoderOf(coding: string): Decoder {
  const decoder = DECODERS.get(coding);
  if (decoder === undefined) throw new Error(`there is no decoder for ${coding}`);
  return decoder;
}

type Inflater = Transform & { bytesWritten: number };

/** One compressed member: a decoder, and whether it has come to its end. */
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

  /** Yields what comes out, answers how many bytes went in: fewer than given where the member ends before. */
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

  /** The rest, once the source has ended. @throws Error where the member has not. */
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

/** More than what Node cuts from a pool that several buffers share, so that `freeChunk` can free it. */
const CHUNK = { chunkSize: 64 * 1024 };
const zstdOptions = ({ maxWindowLog }: InflateLimits): ZstdOptions =>
  maxWindowLog === undefined ? {} : { params: { [constants.ZSTD_d_windowLogMax]: maxWindowLog } };

/** What `info` has a function answer beside its output. */
interface SyncResult {
  readonly buffer: Buffer;
  readonly engine: { readonly bytesWritten: number };
}

interface Decoder {
  open(limits: InflateLimits): Inflater;
  /** None for brotli, which fills its window of up to 16 MiB before it gives out the first byte. */
  decodeSync?(body: Buffer, options: { maxOutputLength: number; info: true }, limits: InflateLimits): unknown;
}

const GZIP: Decoder = {
  open: () => createGunzip(CHUNK),
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
