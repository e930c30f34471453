/** Reads the body of a request, which can be compressed. The body is a form, the text of a query, or the data of an INSERT. */

import { messageOf } from '../../../process/errors.ts';
import { type ByteStream, inflate, isInflatable } from '../../../process/inflate.ts';
import { MAX_FORM_BYTES } from '../engine/limits.ts';
import { exceptions } from './httpErrors.ts';
import { type RequestHead, splitParameters } from './requestParsing.ts';

/**
 * Decompresses a body. The body can consist of several compressed parts, because `clickhouse-connect` compresses each block
 * separately.
 * @throws ClickHouseException for an unknown coding or, while the body is read, for invalid bytes.
 */
export function decodeContent(source: ByteStream, coding: string): ByteStream {
  if (coding === '' || coding === 'identity') return source;
  if (!isInflatable(coding)) {
    const supported = 'The embedded ClickHouse supports gzip, deflate, br, zstd, and none.';
    throw exceptions.unknownCompression(`Unknown compression method '${coding}'. ${supported}`);
  }
  return translateErrors(inflate(source, coding));
}

async function* translateErrors(source: ByteStream): ByteStream {
  try {
    yield* source;
  } catch (error) {
    const isConnectionError =
      error instanceof Error && 'code' in error && String(error.code).startsWith('ECONN');
    throw isConnectionError
      ? error
      : exceptions.cannotDecompress(`Cannot decompress the body: ${messageOf(error)}.`);
  }
}

/** Reads a query from a multipart form. @throws ClickHouseException if the form is too large, is invalid, or contains files. */
export async function readForm(head: RequestHead, body: ByteStream): Promise<RequestHead> {
  const bytes = await new BodyReader('', body).all(MAX_FORM_BYTES);
  const response = new Response(bytes, { headers: { 'content-type': head.contentType } });
  const form = await response.formData().catch((cause: unknown) => {
    throw exceptions.badArguments(`The form cannot be read: ${String(cause)}`);
  });
  const fields = Array.from(form, ([name, value]): [string, string] => {
    if (typeof value === 'string') return [name, value];
    throw exceptions.notImplemented('The embedded ClickHouse does not support external tables.');
  });
  const { settings, parameters } = splitParameters(fields);
  const query = fields.find(([name]) => name === 'query')?.[1];
  return {
    ...head,
    urlQuery: [head.urlQuery, query].filter((part) => part !== undefined && part !== '').join('\n'),
    settings: new Map([...head.settings, ...settings]),
    parameters: new Map([...head.parameters, ...parameters]),
  };
}

/** Reads the text of a query. The text consists of the query in the URL, a line feed, and the body. */
export class BodyReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #start: Buffer<ArrayBuffer>;

  constructor(urlQuery: string, body: ByteStream) {
    this.#chunks = body[Symbol.asyncIterator]();
    this.#start = Buffer.from(urlQuery === '' ? '' : `${urlQuery}\n`);
  }

  /** Returns at least the first `bytes` bytes of the query's text. Returns the whole text if the text is shorter. */
  async start(bytes: number): Promise<Buffer<ArrayBuffer>> {
    const parts: Buffer[] = [this.#start];
    for (let length = this.#start.length; length < bytes; ) {
      const next = await this.#chunks.next();
      if (next.done) break;
      parts.push(next.value);
      length += next.value.length;
    }
    this.#start = Buffer.concat(parts);
    return this.#start;
  }

  async all(maxBytes: number): Promise<Buffer<ArrayBuffer>> {
    const bytes = await this.start(maxBytes + 1);
    if (bytes.length > maxBytes) throw exceptions.tooLarge(`The query is longer than ${maxBytes} bytes.`);
    return bytes;
  }

  /** Yields the query's text from the byte `offset` on. `offset` must be at most the number of bytes that `start` returned. */
  async *from(offset: number): ByteStream {
    if (offset < this.#start.length) yield this.#start.subarray(offset);
    yield* { [Symbol.asyncIterator]: () => this.#chunks };
  }
}

/** Decodes the text of a query. @throws ClickHouseException if the text is not UTF-8. */
export function sqlOf(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch {
    throw exceptions.syntax('The query is not valid UTF-8.');
  }
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
