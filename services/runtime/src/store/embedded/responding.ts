/** Sends answers: ClickHouse's headers, compression as asked for, and errors in ClickHouse's own form. */

import type { ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import { type ClickHouseException, errorText, httpStatusOf } from './httpErrors.ts';
import type { RequestHead, ResponseEncoding } from './requestParsing.ts';

export interface Summary {
  readRows: number;
  readBytes: number;
  writtenRows: number;
  writtenBytes: number;
  resultRows: number;
  resultBytes: number;
  elapsedS: number;
}

export interface ServerFacts {
  version: string;
  timezone: string;
}

/** `format` is only said of a statement that answers with rows: clients take its absence for "nothing to read". */
export async function sendResult(
  response: ServerResponse,
  head: RequestHead,
  facts: ServerFacts,
  result: { bytes: Buffer; format: string | undefined; summary: Summary },
): Promise<void> {
  const { bytes, format, summary } = result;
  commonHeaders(response, head, facts);
  response.setHeader('X-ClickHouse-Summary', summaryText(summary));
  if (format !== undefined) response.setHeader('X-ClickHouse-Format', format);
  response.setHeader('Content-Type', contentTypeOf(format));
  const isWorthIt = head.encoding !== undefined && bytes.length >= MIN_COMPRESSED_BYTES;
  const body = isWorthIt && head.encoding !== undefined ? await COMPRESS[head.encoding](bytes) : bytes;
  if (isWorthIt && head.encoding !== undefined) response.setHeader('Content-Encoding', head.encoding);
  response.statusCode = 200;
  response.end(body);
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

/** Fast levels: the wire is the loopback. */
const COMPRESS: Readonly<Record<ResponseEncoding, (bytes: Buffer) => Promise<Buffer>>> = {
  zstd: (bytes) =>
    promisify(zlib.zstdCompress)(bytes, { params: { [zlib.constants.ZSTD_c_compressionLevel]: 1 } }),
  gzip: (bytes) => promisify(zlib.gzip)(bytes, { level: 1 }),
  deflate: (bytes) => promisify(zlib.deflate)(bytes, { level: 1 }),
  br: (bytes) =>
    promisify(zlib.brotliCompress)(bytes, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } }),
};
