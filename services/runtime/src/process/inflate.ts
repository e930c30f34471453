/** Inflates what a Content-Encoding has compressed, also where several members follow one another. */
import type { Transform } from 'node:stream';
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
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
  const open = DECODERS.get(coding);
  if (open === undefined) throw new Error(`there is no decoder for ${coding}`);
  let member: Member | undefined;
  let members = 0;
  try {
    for await (const chunk of source) {
      let rest = chunk;
      while (rest.length > 0) {
        if (member === undefined && ++members > (limits.maxMembers ?? Number.POSITIVE_INFINITY)) {
          throw new Error('there are too many members');
        }
        const isFresh = member === undefined;
        member ??= new Member(open(limits));
        const taken: number = yield* member.feed(rest);
        if (isFresh && taken === 0) throw new Error('unexpected bytes behind the end');
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
    const taken = this.#decoder.bytesWritten - before;
    this.hasEnded ||= taken < chunk.length;
    return taken;
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

const DECODERS = new Map<string, (limits: InflateLimits) => Inflater>([
  ['gzip', () => createGunzip()],
  ['x-gzip', () => createGunzip()],
  ['deflate', () => createInflate()],
  ['br', () => createBrotliDecompress()],
  [
    'zstd',
    ({ maxWindowLog }) =>
      createZstdDecompress(
        maxWindowLog === undefined ? {} : { params: { [constants.ZSTD_d_windowLogMax]: maxWindowLog } },
      ),
  ],
]);
