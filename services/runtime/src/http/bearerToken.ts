/** Reads the bearer token of a request (RFC 6750). */
import { Rejected } from './rejected.ts';

/** Matches the value of an `Authorization` header with a bearer token. */
export const BEARER = /^bearer +([\w.~+/-]+=*)$/i;

/** @throws Rejected 401 if the header has no bearer token */
export function bearerToken(header: string | undefined): string {
  const token = BEARER.exec(header ?? '')?.[1];
  if (token !== undefined) return token;
  throw new Rejected(
    'unauthorized',
    'the header Authorization: Bearer <ACCESS_TOKEN> is missing or malformed',
    {
      headers: { 'WWW-Authenticate': 'Bearer realm="questlog"' },
    },
  );
}
