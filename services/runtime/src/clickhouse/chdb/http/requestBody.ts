/** Finds the query in the URL and the body together, and where an INSERT's data begins in it. */

import type { ByteStream } from '../../../process/inflate.ts';
import { MAX_QUERY_TEXT_BYTES } from '../engine/limits.ts';
import { exceptions } from './httpErrors.ts';
import { type DataInsert, type PlainStatement, readStatement } from './statement.ts';

export interface PlainQuery {
  statement: PlainStatement;
  /** The bytes that the statement's positions count. */
  text: Buffer;
}

export interface InsertQuery {
  insert: DataInsert;
  /** `INSERT INTO t (a, b)` */
  target: string;
  /** `a = 1, b = 'x'` */
  settingsText: string | undefined;
  data: ByteStream;
}

/**
 * ClickHouse's rule: the whole is the URL's query, a line feed and the body.
 * Answers undefined when there is no query at all.
 * @param maxBytes of the whole, an INSERT's data included
 * @throws ClickHouseException when the text is too long or refused (see `readStatement`)
 */
export async function readQuery(
  urlQuery: string,
  body: ByteStream,
  maxBytes = Number.POSITIVE_INFINITY,
): Promise<PlainQuery | InsertQuery | undefined> {
  const chunks = body[Symbol.asyncIterator]();
  let head = Buffer.from(urlQuery === '' ? '' : `${urlQuery}\n`);
  for (let readAt = FIRST_LOOK_BYTES; ; readAt = head.length * 2) {
    const filled = await fill(head, chunks, readAt);
    head = filled.bytes;
    if (head.length > maxBytes) throw exceptions.queryTooLarge(maxBytes);
    const statement = readStatement(head.toString('latin1'), filled.hasEnded);
    if (statement.kind === 'empty') return undefined;
    if (statement.kind === 'dataInsert') return insertQuery(statement, head, chunks);
    if (statement.kind !== 'incomplete') return { statement, text: head };
    if (head.length > MAX_QUERY_TEXT_BYTES) throw exceptions.queryTooLarge(MAX_QUERY_TEXT_BYTES);
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

async function fill(
  start: Buffer<ArrayBuffer>,
  chunks: AsyncIterator<Buffer>,
  bytes: number,
): Promise<{ bytes: Buffer<ArrayBuffer>; hasEnded: boolean }> {
  const parts: Buffer[] = [start];
  let length = start.length;
  while (length < bytes) {
    const next = await chunks.next();
    if (next.done) return { bytes: Buffer.concat(parts), hasEnded: true };
    parts.push(next.value);
    length += next.value.length;
  }
  return { bytes: Buffer.concat(parts), hasEnded: false };
}

function insertQuery(insert: DataInsert, head: Buffer, chunks: AsyncIterator<Buffer>): InsertQuery {
  const text = (start: number, end: number) => sqlOf(head.subarray(start, end)).trim();
  const { settings } = insert;
  return {
    insert,
    target: text(0, insert.targetEnd),
    settingsText: settings === undefined ? undefined : text(settings.start, settings.end),
    data: restOf(head.subarray(insert.dataStart), chunks),
  };
}

async function* restOf(first: Buffer, chunks: AsyncIterator<Buffer>): ByteStream {
  if (first.length > 0) yield first;
  for (;;) {
    const next = await chunks.next();
    if (next.done) return;
    yield next.value;
  }
}

/** Nearly every query is shorter, and nearly every INSERT's text: then one look is enough. */
const FIRST_LOOK_BYTES = 64 * 1024;

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
