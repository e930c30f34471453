/** Parses the `limit` parameter of list queries. */
import { Rejected } from '../rejected.ts';

export interface PageQuery {
  readonly limit?: string | undefined;
  readonly cursor?: string | undefined;
}

const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1_000;

/** @throws Rejected with the name of the invalid parameter */
export function readLimit(text: string | undefined): number {
  if (text === undefined) return DEFAULT_LIMIT;
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw new Rejected('invalid_request', `limit: a whole number from 1 to ${MAX_LIMIT}`);
}
