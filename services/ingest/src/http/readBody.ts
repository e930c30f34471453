/** Reads a request's body under limits: inflated as its Content-Encoding says, never past the bound, valid UTF-8. */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib';
import { Unavailable } from '@questlog/runtime/process/errors';
import { LIMITS } from '@questlog/schemas/http/event';
import { Rejected } from '../rejected.ts';

const INFLATERS: Readonly<Record<string, () => Duplex>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};

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
  const open = inflaterFor(request);
  if (Number(request.headers['content-length'] ?? 0) > LIMITS.maxBodyBytes) throw tooLarge();
  const held = { bytes: 0 };
  try {
    const body = await collect(request, open, budget, held);
    if (!isUtf8(body)) throw new Rejected('invalid_utf8', 'the body is not valid UTF-8');
    return await work(body);
  } finally {
    budget.give(held.bytes);
  }
}

function inflaterFor(request: IncomingMessage): (() => Duplex) | undefined {
  const type = (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase();
  if (type !== 'application/json') {
    throw new Rejected('unsupported_media_type', 'the Content-Type must be application/json');
  }
  const coding = (request.headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  if (coding === 'identity' || coding === '') return undefined;
  const inflater = Object.hasOwn(INFLATERS, coding) ? INFLATERS[coding] : undefined;
  if (inflater !== undefined) return inflater;
  throw new Rejected('unsupported_encoding', 'the Content-Encoding must be gzip, deflate, br or zstd', {
    headers: { 'Accept-Encoding': 'gzip, deflate, br, zstd' },
  });
}

async function collect(
  request: IncomingMessage,
  open: (() => Duplex) | undefined,
  budget: BodyBudget,
  held: { bytes: number },
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const add = (chunk: Buffer): void => {
    budget.take(chunk.length);
    held.bytes += chunk.length;
    if (held.bytes > LIMITS.maxBodyBytes) throw tooLarge();
    chunks.push(chunk);
  };
  if (open === undefined) await collectPlain(request, add);
  else await collectInflated(request, open(), add);
  return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
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
    request.on('close', () => reject(aborted()));
    request.on('error', (cause) => reject(aborted(cause)));
  });
}

async function collectInflated(
  request: IncomingMessage,
  inflater: Duplex,
  add: (chunk: Buffer) => void,
): Promise<void> {
  let refused: unknown;
  try {
    await pipeline(withoutDestroy(request), inflater, async (inflated: AsyncIterable<Buffer>) => {
      for await (const chunk of inflated) {
        try {
          add(chunk);
        } catch (error) {
          refused = error;
          throw error;
        }
      }
    });
  } catch (cause) {
    request.resume();
    if (refused !== undefined) throw refused;
    // A request that was read to its end is destroyed too; that one is complete.
    if (request.destroyed && !request.complete) throw aborted(cause);
    throw new Rejected('invalid_encoding', 'the body does not decode as its Content-Encoding says', {
      cause,
    });
  }
}

/** A failing pipeline destroys its source, and with it the connection that the answer needs; this source is ours. */
async function* withoutDestroy(request: IncomingMessage): AsyncGenerator<Buffer> {
  yield* request.iterator({ destroyOnReturn: false });
}

function tooLarge(): Rejected {
  return new Rejected('body_too_large', `a body takes at most ${LIMITS.maxBodyBytes} bytes once inflated`);
}

function aborted(cause?: unknown): Rejected {
  return new Rejected('invalid_request', 'the request ended before its body was complete', { cause });
}
