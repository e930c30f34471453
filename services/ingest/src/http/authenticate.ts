/** Resolves a bearer token (RFC 6750) in the directory before the body is read. */
import { type Directory, type Principal, resolveToken } from '@questlog/runtime/directory/directory';
import type { Scope } from '@questlog/schemas/topics/directoryEntry';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import { Rejected } from '../rejected.ts';

const BEARER = /^bearer +([\w.~+/-]+=*)$/i;

/** @throws Rejected 401 without a valid token. */
export function authenticate(
  header: string | undefined,
  deps: { directory: Directory; nowMs: number; defaultRevision: Revision },
): Principal {
  const token = bearerToken(header);
  const principal = resolveToken(deps.directory, token, deps.nowMs, deps.defaultRevision);
  if (principal === undefined) {
    throw new Rejected('unauthorized', 'the access token is unknown, revoked or expired', {
      headers: { 'WWW-Authenticate': 'Bearer realm="questlog", error="invalid_token"' },
    });
  }
  return principal;
}

/** @throws Rejected 403 without the scope. */
export function checkScope(principal: Principal, scope: Scope): void {
  if (principal.scopes.includes(scope)) return;
  throw new Rejected('forbidden', `the access token lacks the scope ${scope}`, {
    headers: { 'WWW-Authenticate': `Bearer realm="questlog", error="insufficient_scope", scope="${scope}"` },
  });
}

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
