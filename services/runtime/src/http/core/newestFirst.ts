/** Reads pages of rows, newest first. Each row has a server time and a UUID. */
import { Rejected } from '../rejected.ts';
import { type PageQuery, readLimit } from './pageLimit.ts';

export interface NewestFirstPage {
  readonly limit: number;
  readonly before: PagePosition;
}

export interface PagePosition {
  readonly millis: string;
  readonly id: string;
}

const NEWEST: PagePosition = { millis: '9223372036854775807', id: 'ffffffff-ffff-ffff-ffff-ffffffffffff' };
const CURSOR_FORMAT = /^(\d{1,15})\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;

/** @throws Rejected with the name of the invalid parameter */
export function readNewestFirst({ limit, cursor }: PageQuery): NewestFirstPage {
  const before = cursor === undefined ? NEWEST : parsePosition(cursor);
  if (before === undefined) {
    throw new Rejected('invalid_request', 'cursor: must be the value of next from an earlier page');
  }
  return { limit: readLimit(limit), before };
}

/** Returns the conditions, order, and limit of a page query. `time` names a column of type DateTime64(3). */
export function newestFirstClause(time: string): string {
  return `${time} <= fromUnixTimestamp64Milli({millis:Int64})
     AND (toUnixTimestamp64Milli(${time}), id) < ({millis:Int64}, {id:UUID})
     ORDER BY ${time} DESC, id DESC LIMIT {limit:UInt32}`;
}

/** Returns the parameters of a page query. The query reads one additional row to detect a further page. */
export function newestFirstParams({ limit, before }: NewestFirstPage): Record<string, unknown> {
  return { ...before, limit: limit + 1 };
}

export function newestFirstPage<Row>(
  rows: readonly Row[],
  { limit }: NewestFirstPage,
  positionOf: (row: Row) => PagePosition,
): { rows: readonly Row[]; next: string | null } {
  const page = rows.slice(0, limit);
  const last = rows.length > limit ? page.at(-1) : undefined;
  return { rows: page, next: last === undefined ? null : formatPosition(positionOf(last)) };
}

function formatPosition({ millis, id }: PagePosition): string {
  return Buffer.from(`${millis}.${id}`, 'latin1').toString('base64url');
}

function parsePosition(text: string): PagePosition | undefined {
  const [, millis, id] = CURSOR_FORMAT.exec(Buffer.from(text, 'base64url').toString('latin1')) ?? [];
  return millis === undefined || id === undefined ? undefined : { millis, id };
}
