/** The content codings of a request's body. */
import {
  type BrotliDecompress,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
  type Gunzip,
  type Inflate,
  type ZstdDecompress,
} from 'node:zlib';
import { Rejected } from '../rejected.ts';

export type Coding = () => BrotliDecompress | Gunzip | Inflate | ZstdDecompress;

const CODINGS: Readonly<Record<string, Coding>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};

/** Frames of one body; each costs a decoder. */
const MAX_FRAMES = 1_000;

/** Of a Content-Encoding; undefined for none. @throws Rejected for one that is not known. */
export function codingOf(header: string): Coding | undefined {
  const name = header.trim().toLowerCase();
  if (name === 'identity' || name === '') return undefined;
  const coding = Object.hasOwn(CODINGS, name) ? CODINGS[name] : undefined;
  if (coding !== undefined) return coding;
  throw new Rejected('unsupported_encoding', 'the Content-Encoding must be gzip, deflate, br or zstd', {
    headers: { 'Accept-Encoding': 'gzip, deflate, br, zstd' },
  });
}

/**
 * Hands every inflated chunk to `add` and stops where that throws. Frames of zstd may stand one behind the other (RFC
 * 8878, section 3), and Node's decoders end silently behind the first: what is left goes to another one.
 * @throws Rejected where the body is not what its coding says, to the last byte.
 */
export async function inflate(sent: Buffer, open: Coding, add: (chunk: Buffer) => void): Promise<void> {
  let rest = sent;
  for (let frames = 0; rest.length > 0; frames++) {
    const used = frames < MAX_FRAMES ? await inflateFrame(rest, open(), add) : 0;
    if (used === 0 || (used < rest.length && open !== createZstdDecompress)) throw broken();
    rest = rest.subarray(used);
  }
}

/** Returns how many bytes the frame took. */
async function inflateFrame(
  sent: Buffer,
  decoder: ReturnType<Coding>,
  add: (chunk: Buffer) => void,
): Promise<number> {
  decoder.end(sent);
  const chunks: AsyncIterator<Buffer> = decoder[Symbol.asyncIterator]();
  for (;;) {
    const next = await chunks.next().catch((cause: unknown) => {
      throw broken(cause);
    });
    if (next.done === true) return decoder.bytesWritten;
    try {
      add(next.value);
    } catch (error) {
      decoder.destroy();
      throw error;
    }
  }
}

function broken(cause?: unknown): Rejected {
  return new Rejected('invalid_encoding', 'the body does not decode as its Content-Encoding says', { cause });
}
