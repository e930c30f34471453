/** Reads what a request carries in its body: compressed or not, a form, the text of a query, an INSERT's data. */

import { messageOf } from '../../../process/errors.ts';
import { type ByteStream, inflate, isInflatable } from '../../../process/inflate.ts';
import { MAX_FORM_BYTES } from '../engine/limits.ts';
import { exceptions } from './httpErrors.ts';
import { type RequestHead, splitParameters } from './requestParsing.ts';

/**
 * The body as it was before compression. `clickhouse-connect` compresses each block of an insert by itself, so several
 * members follow one another.
 * @throws ClickHouseException when the coding is unknown, or while reading when the bytes are not of that coding
 */
export function decodeContent(source: ByteStream, coding: string): ByteStream {
  if (coding === '' || coding === 'identity') return source;
  if (!isInflatable(coding)) {
    const supported = 'The embedded ClickHouse takes gzip, deflate, br, zstd and none.';
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

/**
 * A query and its parameters from a multipart form: how clients send parameters that are too long for a URL.
 * @throws ClickHouseException when the form is too large, broken, or carries files (data for external tables)
 */
export async function readForm(head: RequestHead, body: ByteStream): Promise<RequestHead> {
  const bytes = await new BodyReader('', body).all(MAX_FORM_BYTES);
  const response = new Response(bytes, { headers: { 'content-type': head.contentType } });
  const form = await response.formData().catch((cause: unknown) => {
    throw exceptions.badArguments(`The form cannot be read: ${String(cause)}`);
  });
  const fields = Array.from(form, ([name, value]): [string, string] => {
    if (typeof value === 'string') return [name, value];
    throw exceptions.notImplemented('The embedded ClickHouse does not take external tables.');
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

/** ClickHouse's rule: the whole is the URL's query, a line feed and the body. */
export class BodyReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #start: Buffer<ArrayBuffer>;

  constructor(urlQuery: string, body: ByteStream) {
    this.#chunks = body[Symbol.asyncIterator]();
    this.#start = Buffer.from(urlQuery === '' ? '' : `${urlQuery}\n`);
  }

  /** The beginning: so many bytes or a few more, fewer where it ends before. */
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

  /** @throws ClickHouseException when there are more bytes */
  async all(maxBytes: number): Promise<Buffer<ArrayBuffer>> {
    const bytes = await this.start(maxBytes + 1);
    if (bytes.length > maxBytes) throw exceptions.tooLarge(`The query is longer than ${maxBytes} bytes.`);
    return bytes;
  }

  /** Everything from a place in the beginning on. */
  async *from(offset: number): ByteStream {
    if (offset < this.#start.length) yield this.#start.subarray(offset);
    yield* { [Symbol.asyncIterator]: () => this.#chunks };
  }
}

/**
 * Query text as the engine gets it. What is no UTF-8 would reach it as something else than what was sent, so it is
 * refused (data of an INSERT may be any bytes).
 * @throws ClickHouseException
 */
export function sqlOf(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch {
    throw exceptions.syntax('The query is not valid UTF-8.');
  }
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
