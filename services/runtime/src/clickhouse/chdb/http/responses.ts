/** Sends responses with ClickHouse's headers, the requested compression, and errors in ClickHouse's format. */

import type { ServerResponse } from 'node:http';
import { Readable, type Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createBrotliCompress, createDeflate, createGzip, createZstdCompress } from 'node:zlib';
import type { ByteStream } from '../../../process/inflate.ts';
import { compressedBlocks } from './compressedBlocks.ts';
import type { ExecutionResult } from './execution.ts';
import { type ClickHouseException, errorText, httpStatusOf } from './httpErrors.ts';
import { nativeBlocks, needsConversion } from './nativeBlocks.ts';
import type { RequestHead, ResponseEncoding } from './requestParsing.ts';
import type { Summary } from './statementAudit.ts';

export interface ServerFacts {
  version: string;
  timezone: string;
}

/**
 * Sends a result. Only statements with rows get the header `X-ClickHouse-Format`, because clients read rows if the header is
 * present. If reading a large result fails, the connection is closed, so that the client detects the incomplete response.
 */
export async function sendResult(
  response: ServerResponse,
  head: RequestHead,
  facts: ServerFacts,
  result: ExecutionResult,
): Promise<void> {
  const { bytes, content: resultContent } = result.body;
  try {
    const converted = bytes === 0 ? undefined : convertedContent(head, result);
    commonHeaders(response, head, facts);
    if (result.loweredSettings !== '')
      response.setHeader('X-Questlog-Lowered-Settings', result.loweredSettings);
    response.setHeader('X-ClickHouse-Summary', summaryText(result.summary));
    if (result.format !== undefined) response.setHeader('X-ClickHouse-Format', result.format);
    response.setHeader('Content-Type', contentTypeOf(result.format));
    const encoding = bytes >= MIN_COMPRESSED_BYTES ? head.encoding : undefined;
    if (encoding !== undefined) response.setHeader('Content-Encoding', encoding);
    else if (converted === undefined) response.setHeader('Content-Length', bytes);
    response.statusCode = 200;
    const content = converted ?? resultContent;
    if (encoding === undefined && Buffer.isBuffer(content)) return void response.end(content);
    const source = Buffer.isBuffer(content) ? Readable.from([content]) : content;
    const steps = encoding === undefined ? [] : [COMPRESSORS[encoding]()];
    // Closes the connection because no error response can be sent after the response has started.
    await pipeline([source, ...steps, response]).catch(() => response.destroy());
  } finally {
    // If the client disconnects before the conversion has started, the conversion does not close the file of the result.
    if (!Buffer.isBuffer(resultContent)) resultContent.destroy();
  }
}

/**
 * Returns the content in the form that the client requests with `compress` or `client_protocol_version`. Undefined if the
 * client requests neither.
 */
function convertedContent(head: RequestHead, { body, format }: ExecutionResult): Readable | undefined {
  const isVersioned = needsConversion(head, format);
  if (!isVersioned && !head.compress) return undefined;
  const source: ByteStream = Buffer.isBuffer(body.content) ? Readable.from([body.content]) : body.content;
  const blocks = isVersioned ? nativeBlocks(source, head.clientVersion) : source;
  return Readable.from(head.compress ? compressedBlocks(blocks) : blocks);
}

export function sendText(response: ServerResponse, text: string): void {
  response.setHeader('Content-Type', 'text/html; charset=UTF-8');
  response.statusCode = 200;
  response.end(text);
}

/** Sends an error response. The error is the whole response, because a result is sent only after its query has succeeded. */
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

/** Returns the summary as JSON. The counts are strings, because some clients cannot represent 64-bit numbers. */
function summaryText(summary: Summary): string {
  const all = { ...EMPTY_SUMMARY, ...summary };
  return JSON.stringify(Object.fromEntries(Object.entries(all).map(([name, n]) => [name, n.toFixed()])));
}

const EMPTY_SUMMARY = {
  ...{ read_rows: 0, read_bytes: 0, written_rows: 0, written_bytes: 0 },
  ...{ total_rows_to_read: 0, result_rows: 0, result_bytes: 0, elapsed_ns: 0 },
};

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

const MIN_COMPRESSED_BYTES = 512;

/** Passes on one chunk at a time. If the stream ended while a chunk waited, Node's encoder would write a second frame. */
const ONE_CHUNK = { writableHighWaterMark: 1 };

const COMPRESSORS: Readonly<Record<ResponseEncoding, () => Transform>> = {
  zstd: () => createZstdCompress({ ...ONE_CHUNK, params: { [constants.ZSTD_c_compressionLevel]: 1 } }),
  gzip: () => createGzip({ level: 1 }),
  deflate: () => createDeflate({ level: 1 }),
  br: () => createBrotliCompress({ params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
};
