/** Reads a request's body under limits: inflated as its Content-Encoding says, never past the bound, valid UTF-8. */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
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
import { Unavailable } from '@questlog/runtime/process/errors';
import { LIMITS } from '@questlog/schemas/http/event';
import { Rejected } from '../rejected.ts';

/** Bytes of bodies that the process holds at once; past it a request is told to come again. */
const MAX_BYTES_IN_FLIGHT = 256 * 1024 * 1024;

/** Counts the bodies that are being read or worked on. */
export class BodyBudget {
  readonly #gauge: { set(value: number): void };
  #bytes = 0;

  constructor(gauge: { set(value: number): void }) {
    this.#gauge = gauge;
  }

  take(bytes: number): void {
    if (this.#bytes + bytes > MAX_BYTES_IN_FLIGHT) throw new Unavailable('too many request bodies at once');
    this.#bytes += bytes;
    this.#gauge.set(this.#bytes);
  }

  give(bytes: number): void {
    this.#bytes -= bytes;
    this.#gauge.set(this.#bytes);
  }
}

/** @throws Rejected for another media type or coding, a broken body, one beyond the limit, or one that is not UTF-8. */
export async function withBody<T>(
  request: IncomingMessage,
  budget: BodyBudget,
  work: (body: Buffer) => Promise<T>,
): Promise<T> {
  const coding = codingFor(request);
  if (Number(request.headers['content-length'] ?? 0) > LIMITS.maxBodyBytes) throw tooLarge();
  const held = { bytes: 0 };
  try {
    const body = await collect(request, coding, budget, held);
    if (!isUtf8(body)) throw new Rejected('invalid_utf8', 'the body is not valid UTF-8');
    return await work(body);
  } finally {
    budget.give(held.bytes);
  }
}

function codingFor(request: IncomingMessage): Coding | undefined {
  const type = (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase();
  if (type !== 'application/json') {
    throw new Rejected('unsupported_media_type', 'the Content-Type must be application/json');
  }
  return codingOf(request.headers['content-encoding'] ?? '');
}

async function collect(
  request: IncomingMessage,
  coding: Coding | undefined,
  budget: BodyBudget,
  held: { bytes: number },
): Promise<Buffer> {
  const sent = new LimitedChunks(budget, held);
  await collectPlain(request, (chunk) => sent.add(chunk));
  if (coding === undefined) return sent.whole();
  const inflated = new LimitedChunks(budget, held);
  await inflate(sent.whole(), coding, (chunk) => inflated.add(chunk));
  return inflated.whole();
}

/** What a body is made of, sent or inflated; refuses the chunk that takes it past the limit. */
class LimitedChunks {
  readonly #budget: BodyBudget;
  readonly #held: { bytes: number };
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(budget: BodyBudget, held: { bytes: number }) {
    this.#budget = budget;
    this.#held = held;
  }

  add(chunk: Buffer): void {
    this.#budget.take(chunk.length);
    this.#held.bytes += chunk.length;
    this.#bytes += chunk.length;
    if (this.#bytes > LIMITS.maxBodyBytes) throw tooLarge();
    this.#chunks.push(chunk);
  }

  whole(): Buffer {
    const [only] = this.#chunks;
    return this.#chunks.length === 1 && only !== undefined ? only : Buffer.concat(this.#chunks);
  }
}

/** By events, not by iterator: leaving an iterator early would tear down the connection that the answer needs. */
function collectPlain(request: IncomingMessage, add: (chunk: Buffer) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (error: unknown): void => {
      request.removeAllListeners('data');
      request.resume();
      reject(error);
    };
    request.on('data', (chunk: Buffer) => {
      try {
        add(chunk);
      } catch (error) {
        stop(error);
      }
    });
    request.on('end', resolve);
    // Every request closes in the end; an error for each would be made for nothing.
    request.on('close', () => {
      if (!request.complete) reject(aborted());
    });
    request.on('error', (cause) => reject(aborted(cause)));
  });
}

function tooLarge(): Rejected {
  return new Rejected('body_too_large', `a body takes at most ${LIMITS.maxBodyBytes} bytes once inflated`);
}

function aborted(cause?: unknown): Rejected {
  return new Rejected('invalid_request', 'the request ended before its body was complete', { cause });
}

type Coding = () => BrotliDecompress | Gunzip | Inflate | ZstdDecompress;

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
function codingOf(header: string): Coding | undefined {
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
async function inflate(sent: Buffer, open: Coding, add: (chunk: Buffer) => void): Promise<void> {
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
