/** Authenticates a request by its bearer token (RFC 6750) or JWT before the request body is read. */
import type { IncomingMessage } from 'node:http';
import {
  type Directory,
  findToken,
  isRestricted,
  type Principal,
  principalOf,
} from '@questlog/runtime/directory/directory';
import { isMistyped } from '@questlog/runtime/directory/tokenText';
import { BEARER, bearerToken } from '@questlog/runtime/http/bearerToken';
import type { AddressLimits } from '@questlog/runtime/http/limits/addresses';
import type { Credentials } from '@questlog/runtime/http/limits/unauthenticated';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Clock } from '@questlog/runtime/process/clock';
import { ADMIN_TOKEN, IS_ADMIN_TOKEN } from '@questlog/schemas/tokenPrefixes';
import type { Scope } from '@questlog/schemas/topics/directoryEntry';
import type { Revision } from '@questlog/schemas/topics/eventsAccepted';
import type { Middleware } from 'koa';
import type { Limits } from '../limits/limits.ts';
import type { JwtVerifier, VerifiedJwt } from '../tokens/jwt/jwtVerifier.ts';
import type { TokenUses } from '../tokens/tokenUses.ts';

/** A moment at which a token or JWT is checked, with the directory of that moment. */
interface DirectoryAt {
  readonly directory: Directory;
  readonly nowMs: number;
  readonly defaultRevision: Revision;
}

/**
 * Result of the verification of a JWT. The rejection of an invalid JWT is returned and not thrown, because a route without
 * authentication accepts a request with an invalid JWT.
 */
export type JwtVerdict = { readonly jwt: VerifiedJwt } | { readonly rejection: unknown };

/** HTTP request with its state. The fields have the same names as in Koa's context. */
export interface RequestContext {
  readonly req: IncomingMessage;
  readonly state: { principal?: Principal; readonly jwt?: JwtVerdict };
}

/** Principal (the token's owner) of a request, and a function that authenticates the request again. */
export interface Caller {
  readonly principal: Principal;
  readonly reauthenticate: () => Principal;
}

export type Authorize = (context: RequestContext, scope: Scope) => Principal;

export interface AuthorizerDeps {
  readonly directory: Directory;
  readonly defaultRevision: Revision;
  readonly clock: Clock;
  readonly limits: Limits;
  readonly addresses: AddressLimits;
  readonly uses: Pick<TokenUses, 'note'>;
}

/**
 * Returns a function that authenticates a request or throws Rejected. If it authenticates a request again, the request does not
 * count for the rate limits a second time.
 */
export function authorizer(deps: AuthorizerDeps): Authorize {
  const { directory, defaultRevision, clock, limits, addresses, uses } = deps;
  return ({ req, state }, scope) => {
    const authenticated = state.principal;
    const now = { directory, defaultRevision, nowMs: clock.now() };
    const principal =
      authenticated === undefined
        ? authenticate(req.headers.authorization, now, state.jwt)
        : authenticateAgain(authenticated, now);
    state.principal = principal;
    checkScope(principal, scope);
    if (authenticated !== undefined) return principal;
    if (principal.tokenId !== null && principal.jwtExpiresAtMs === undefined) uses.note(principal.tokenId);
    if (principal.addressRequestsPerSecond !== undefined) addresses.admit(principal, req);
    if (scope !== 'read' && isRestricted(principal)) limits.admit(principal, req.headers);
    return principal;
  };
}

/** Returns the principal (owner) of a valid token. Does not check scopes or rate limits. */
export function validPrincipal(
  { req, state }: RequestContext,
  { directory, defaultRevision, clock }: Pick<AuthorizerDeps, 'directory' | 'defaultRevision' | 'clock'>,
): Principal | undefined {
  const { authorization } = req.headers;
  if (authorization === undefined) return undefined;
  try {
    return authenticate(authorization, { directory, defaultRevision, nowMs: clock.now() }, state.jwt);
  } catch (error) {
    if (error instanceof Rejected) return undefined;
    throw error;
  }
}

/** Verifies a JWT before the routes run. Routes authenticate synchronously, and therefore cannot wait for the issuer's keys. */
export function verifyJwts(verifier: JwtVerifier): Middleware {
  return async (ctx, next) => {
    const text = BEARER.exec(ctx.get('Authorization'))?.[1];
    if (text !== undefined && verifier.isJwt(text)) {
      const verdict: JwtVerdict = await verifier.verify(text).then(
        (jwt) => ({ jwt }),
        (rejection: unknown) => ({ rejection }),
      );
      ctx.state['jwt'] = verdict;
    }
    await next();
  };
}

/** @throws Rejected 401 if the request has no valid token */
export function authenticate(header: string | undefined, at: DirectoryAt, jwt?: JwtVerdict): Principal {
  if (jwt !== undefined) {
    if ('rejection' in jwt) throw jwt.rejection;
    return principalOfJwt(jwt.jwt, at);
  }
  const text = bearerToken(header);
  const token = findToken(at.directory, text);
  if (token !== undefined) return principalOfToken(token.id, at);
  if (text.startsWith(ADMIN_TOKEN)) throw invalidToken(IS_ADMIN_TOKEN);
  throw invalidToken(isMistyped(text) ? MISTYPED_TOKEN : UNKNOWN_TOKEN);
}

/** @throws Rejected 401 if the token of the principal is no longer valid */
export function authenticateAgain(principal: Principal, at: DirectoryAt): Principal {
  const { tokenId, jwtExpiresAtMs, project, scopes, buildIds = null } = principal;
  if (jwtExpiresAtMs === undefined) return principalOfToken(tokenId ?? '', at);
  return principalOfJwt(
    { id: tokenId ?? '', projectId: project.id, scopes, buildIds, endsAtMs: jwtExpiresAtMs },
    at,
  );
}

/** @throws Rejected 403 if the principal lacks the scope */
export function checkScope(principal: Principal, scope: Scope): void {
  if (principal.scopes.includes(scope)) return;
  throw new Rejected('forbidden', `the access token lacks the scope ${scope}`, {
    headers: { 'WWW-Authenticate': `Bearer realm="questlog", error="insufficient_scope", scope="${scope}"` },
  });
}

/** Checks an access token at low cost. The result for a JWT is `unknown`. */
export function credentialsIn(
  header: string | undefined,
  { directory, nowMs }: Pick<DirectoryAt, 'directory' | 'nowMs'>,
  isJwt: (text: string) => boolean,
): Credentials {
  const text = BEARER.exec(header ?? '')?.[1];
  if (text === undefined) return 'none';
  if (isJwt(text)) return 'unknown';
  const token = findToken(directory, text);
  return token !== undefined && (token.expiresAt ?? nowMs + 1) > nowMs ? 'valid' : 'invalid';
}

const UNKNOWN_TOKEN = 'the access token is unknown, or was revoked';
const MISTYPED_TOKEN = 'the access token is mistyped: its checksum is wrong';

function principalOfToken(id: string, { directory, nowMs, defaultRevision }: DirectoryAt): Principal {
  const token = directory.tokens.get(id);
  const principal = token && principalOf(directory, token, defaultRevision);
  if (token === undefined || principal === undefined) throw invalidToken(UNKNOWN_TOKEN);
  if (token.expiresAt === null || token.expiresAt > nowMs) return principal;
  const suffix = token.rotatedTo == null ? '' : '; it was rotated and replaced by another token';
  throw invalidToken(`the access token has expired${suffix}`);
}

function principalOfJwt(jwt: VerifiedJwt, { directory, nowMs, defaultRevision }: DirectoryAt): Principal {
  const { endsAtMs, tenantId } = jwt;
  if (endsAtMs <= nowMs) throw invalidToken('the access token has expired');
  const principal = principalOf(directory, jwt, defaultRevision);
  if (principal === undefined) throw invalidToken('the project that the JWT names does not exist');
  if (tenantId === undefined || tenantId === principal.tenant.id)
    return { ...principal, jwtExpiresAtMs: endsAtMs };
  throw invalidToken('the project that the JWT names does not belong to the tenant that it names');
}

function invalidToken(detail: string): Rejected {
  return new Rejected('unauthorized', detail, {
    headers: { 'WWW-Authenticate': 'Bearer realm="questlog", error="invalid_token"' },
  });
}
