/** Sends answers: ClickHouse's headers, compression as asked for, and errors in ClickHouse's own form. */

import type { ServerResponse } from 'node:http';
import type { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { Answer, Summary } from './execution.ts';
import { type ClickHouseException, errorText, httpStatusOf } from './httpErrors.ts';
import type { RequestHead, ResponseEncoding } from './requestParsing.ts';

export interface ServerFacts {
  version: string;
  timezone: string;
}

/**
 * `X-ClickHouse-Format` is only said of a statement that has rows: clients take its absence for "nothing to read".
 * A large result that cannot be read from its file any more ends with the connection, not with a whole answer.
 */
export async function sendResult(
  response: ServerResponse,
  head: RequestHead,
  facts: ServerFacts,
  answer: Answer,
): Promise<void> {
  const { content, bytes } = answer.body;
  commonHeaders(response, head, facts);
  response.setHeader('X-ClickHouse-Summary', summaryText(answer.summary));
  if (answer.format !== undefined) response.setHeader('X-ClickHouse-Format', answer.format);
  response.setHeader('Content-Type', contentTypeOf(answer.format));
  const encoding = bytes >= MIN_COMPRESSED_BYTES ? head.encoding : undefined;
  if (encoding !== undefined) response.setHeader('Content-Encoding', encoding);
  response.statusCode = 200;
  if (Buffer.isBuffer(content)) {
    response.end(encoding === undefined ? content : await COMPRESS[encoding].whole(content));
    return;
  }
  if (encoding === undefined) response.setHeader('Content-Length', bytes);
  const steps = encoding === undefined ? [] : [COMPRESS[encoding].stream()];
  // The client has gone, or the disk fails: either way the connection is closed and there is nothing left to say.
  await pipeline([content, ...steps, response]).catch(() => response.destroy());
}

export function sendText(response: ServerResponse, text: string): void {
  response.setHeader('Content-Type', 'text/html; charset=UTF-8');
  response.statusCode = 200;
  response.end(text);
}

/** Nothing of a result has been sent by then, since results are sent whole: the status tells the truth. */
export function sendError(
  response: ServerResponse,
  head: RequestHead | undefined,
  facts: ServerFacts,
  error: ClickHouseException,
): void {
  if (response.headersSent || response.destroyed) return;
  if (head !== undefined) commonHeaders(response, head, facts);
  response.setHeader('Content-Type', 'text/plain; charset=UTF-8');
  response.setHeader('X-ClickHouse-Exception-Code', String(error.code));
  response.statusCode = httpStatusOf(error.code);
  response.end(errorText(error, facts.version));
}

function commonHeaders(response: ServerResponse, head: RequestHead, facts: ServerFacts): void {
  response.setHeader('X-ClickHouse-Server-Display-Name', 'questlog-embedded');
  response.setHeader('X-ClickHouse-Query-Id', head.queryId);
  response.setHeader('X-ClickHouse-Timezone', facts.timezone);
}

function summaryText(summary: Summary): string {
  return JSON.stringify({
    read_rows: String(summary.readRows),
    read_bytes: String(summary.readBytes),
    written_rows: String(summary.writtenRows),
    written_bytes: String(summary.writtenBytes),
    total_rows_to_read: '0',
    result_rows: String(summary.resultRows),
    result_bytes: String(summary.resultBytes),
    elapsed_ns: String(Math.round(summary.elapsedS * 1e9)),
  });
}

function contentTypeOf(format: string | undefined): string {
  if (format === undefined || /^(TSV|TabSeparated)/.test(format)) {
    return 'text/tab-separated-values; charset=UTF-8';
  }
  if (/^CSV/.test(format)) return 'text/csv; charset=UTF-8; header=absent';
  if (/^JSON.*EachRow|^JSONLines|^NDJSON/.test(format)) return 'application/x-ndjson; charset=UTF-8';
  if (/^JSON/.test(format)) return 'application/json; charset=UTF-8';
  if (/^(Native|RowBinary|Parquet|Arrow|ORC|Avro|MsgPack|RawBLOB|Npy)/.test(format)) {
    return 'application/octet-stream';
  }
  return 'text/plain; charset=UTF-8';
}

/** Below it, the work and the header cost more than the bytes. */
const MIN_COMPRESSED_BYTES = 512;

interface Compression {
  whole(bytes: Buffer): Promise<Buffer>;
  stream(): Transform;
}

const ZSTD = { params: { [zlib.constants.ZSTD_c_compressionLevel]: 1 } };
const BROTLI = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } };

/** Fast levels: the wire is the loopback. */
const COMPRESS: Readonly<Record<ResponseEncoding, Compression>> = {
  zstd: {
    whole: (bytes) => promisify(zlib.zstdCompress)(bytes, ZSTD),
    stream: () => zlib.createZstdCompress(ZSTD),
  },
  gzip: {
    whole: (bytes) => promisify(zlib.gzip)(bytes, { level: 1 }),
    stream: () => zlib.createGzip({ level: 1 }),
  },
  deflate: {
    whole: (bytes) => promisify(zlib.deflate)(bytes, { level: 1 }),
    stream: () => zlib.createDeflate({ level: 1 }),
  },
  br: {
    whole: (bytes) => promisify(zlib.brotliCompress)(bytes, BROTLI),
    stream: () => zlib.createBrotliCompress(BROTLI),
  },
};
