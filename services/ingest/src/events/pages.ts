/** Reads pages of stored events, sorted by `occurredAt`. Events with equal times are sorted by their position in the log. */
import { QueryRejected } from '@questlog/runtime/clickhouse/clickhouseErrors';
import type { CursorCipher } from '@questlog/runtime/cursors/core/cursorCipher';
import { type PageQuery, readLimit } from '@questlog/runtime/http/core/pageLimit';
import { Rejected } from '@questlog/runtime/http/rejected';
import { Unavailable } from '@questlog/runtime/process/errors';
import { yieldToEventLoop } from '@questlog/runtime/process/waiting';
import { type EventRow, eventOfRow } from '@questlog/schemas/tables/events';
import { type AnsweredEvent, eventList, eventPage } from './core/answer.ts';

export interface PositionedRow extends EventRow {
  readonly logPartition: number;
  readonly logOffset: string;
  readonly logIndex: number;
}

export const POSITION_COLUMNS =
  'log_partition AS logPartition, log_offset AS logOffset, log_index AS logIndex';

/** Last clauses of an SQL query that reads one page. The function `pageParams` returns their parameters. */
export const IN_PAGE = `(toUnixTimestamp64Micro(occurred_at), log_partition, log_offset, log_index)
    > ({micros:Int64}, {partition:UInt32}, {offset:UInt64}, {index:UInt32})
  ORDER BY occurred_at, log_partition, log_offset, log_index
  LIMIT {limit:UInt32}`;

export interface Page {
  readonly limit: number;
  readonly cipher: CursorCipher;
  readonly after: Cursor;
}

const START: Cursor = { micros: '-9223372036854775808', partition: 0, offset: '0', index: 0 };

/** Parses the query parameters `limit` and `cursor`. @throws Rejected with the name of the invalid parameter */
export function readPage({ limit, cursor }: PageQuery, cipher: CursorCipher): Page {
  const after = cursor === undefined ? START : parseCursor(cursor, cipher);
  const rows = readLimit(limit);
  if (after === undefined)
    throw new Rejected('invalid_request', 'cursor: must be the value of next from an earlier page');
  return { limit: rows, after, cipher };
}

/** Returns the SQL parameters of `IN_PAGE`. One extra row is requested, which shows whether a next page exists. */
export function pageParams({ limit, after }: Pick<Page, 'limit' | 'after'>): Record<string, unknown> {
  return { ...after, limit: limit + 1 };
}

/** Queries a page of events. Repeats the query with a smaller page if the result is too large. */
export async function queryPage<P extends { readonly limit: number }, Row>(
  page: P,
  query: (page: P, settings: typeof RESULT_LIMITS) => Promise<Row[]>,
): Promise<{ page: P; rows: Row[] }> {
  try {
    return { page, rows: await query(page, RESULT_LIMITS) };
  } catch (error) {
    if (page.limit <= REDUCED_LIMIT || !isTooLarge(error)) throw error;
    const fewer = { ...page, limit: REDUCED_LIMIT };
    return { page: fewer, rows: await query(fewer, RESULT_LIMITS) };
  }
}

/** Page size of the second query if the first result was too large. 100 events of maximum size fit into `RESULT_LIMITS`. */
const REDUCED_LIMIT = 100;
const RESULT_LIMITS = { max_result_bytes: 32 * 1024 * 1024, result_overflow_mode: 'throw' } as const;

/** True if the result of a query exceeds the limits, or if ClickHouse has too little memory for the query. */
function isTooLarge(error: unknown): boolean {
  if (error instanceof QueryRejected) return error.code === TOO_MANY_BYTES;
  return error instanceof Unavailable && codeOf(error.cause) === OUT_OF_MEMORY;
}

const [TOO_MANY_BYTES, OUT_OF_MEMORY] = ['396', '241'];

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

export function pageOf<Row extends PositionedRow>(
  rows: readonly Row[],
  { limit, cipher }: Page,
): { rows: readonly Row[]; next: string | null } {
  const page = rows.slice(0, limit);
  const last = rows.length > limit ? page.at(-1) : undefined;
  return { rows: page, next: last === undefined ? null : formatCursor(cursorOf(last), cipher) };
}

const BYTES_PER_TURN = 128 * 1024;

/** Encodes a page in several steps, because encoding a thousand events at once would block the event loop for 10 ms. */
export async function encodePage<Row extends EventRow>(
  rows: readonly Row[],
  answered: (row: Row) => AnsweredEvent,
  next: string | null,
): Promise<Buffer> {
  const lists: Buffer[] = [];
  let turn: AnsweredEvent[] = [];
  let bytes = 0;
  for (const [at, row] of rows.entries()) {
    const event = answered(row);
    turn.push(event);
    bytes += ROW_BYTES + event.payload.length + event.reportIds.length * REPORT_ID_BYTES;
    if (bytes < BYTES_PER_TURN && at < rows.length - 1) continue;
    lists.push(eventList(turn));
    await yieldToEventLoop();
    turn = [];
    bytes = 0;
  }
  return eventPage(lists, next);
}

/** Fixed cost of writing an event, given as the number of payload bytes that take the same time to write. */
const ROW_BYTES = 512;
const REPORT_ID_BYTES = 39;

export function answeredEvent(row: EventRow, revision: 'A' | 'B'): Omit<AnsweredEvent, 'reportIds'> {
  return { ...eventOfRow(row), overQuota: revision === 'A' ? row.overQuota : undefined };
}

function cursorOf({ occurredAt, logPartition, logOffset, logIndex }: PositionedRow): Cursor {
  return { micros: occurredAt, partition: logPartition, offset: logOffset, index: logIndex };
}

/** Position of a page's last event. The next page starts after this event. Clients get the position in encrypted form. */
export interface Cursor {
  /** Time of the event in microseconds since the epoch, as a decimal string. */
  readonly micros: string;
  readonly partition: number;
  readonly offset: string;
  readonly index: number;
}

const CURSOR_BYTES = 24;

export function formatCursor({ micros, partition, offset, index }: Cursor, cipher: CursorCipher): string {
  const bytes = Buffer.alloc(CURSOR_BYTES);
  bytes.writeBigInt64BE(BigInt(micros), 0);
  bytes.writeUInt32BE(partition, 8);
  bytes.writeBigUInt64BE(BigInt(offset), 12);
  bytes.writeUInt32BE(index, 20);
  return cipher.encrypt(bytes);
}

/** Decrypts a cursor that a client sent. Returns undefined if `formatCursor` did not create the text. */
export function parseCursor(text: string, cipher: CursorCipher): Cursor | undefined {
  const bytes = cipher.decrypt(text);
  if (bytes === undefined) return undefined;
  return {
    micros: String(bytes.readBigInt64BE(0)),
    partition: bytes.readUInt32BE(8),
    offset: String(bytes.readBigUInt64BE(12)),
    index: bytes.readUInt32BE(20),
  };
}
