/** Verifies JWTs (RFC 7519, RFC 8725). Responses and logs never contain parts of a token. */
import { createHash } from 'node:crypto';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { SCOPES, type Scope } from '@questlog/schemas/topics/directoryEntry';
import { canonicalUuid, uuidV8 } from '@questlog/schemas/uuid';
import { errors, type JWTPayload, jwtVerify } from 'jose';
import { issuerKeys } from './issuerKeys.ts';

export interface JwtOptions {
  readonly jwksUrl: URL;
  readonly issuer: string;
  readonly audience: string;
  /** Allowed signature algorithms. HMAC is excluded, because anyone could then sign a JWT with the public key. */
  readonly algorithms: readonly string[];
  readonly clockSkewSeconds: number;
  readonly claims: Readonly<Record<'project' | 'tenant' | 'scopes' | 'builds', string>>;
}

export interface VerifiedJwt {
  /** UUID that is derived from the issuer and the subject of the JWT. */
  readonly id: string;
  readonly projectId: string;
  readonly tenantId?: string | undefined;
  readonly scopes: readonly Scope[];
  /** Ids of the game builds for which the token can write data. Null if the token can write data of all builds. */
  readonly buildIds: readonly string[] | null;
  /** Expiry time of the JWT in milliseconds since the epoch, including the allowed clock skew. */
  readonly endsAtMs: number;
}

export interface JwtVerifier {
  /** True if the bearer token is a JWT. Only JWTs contain dots. */
  isJwt(text: string): boolean;
  /**
   * @throws Rejected 401 if the JWT is not valid
   * @throws Unavailable if the keys of the issuer cannot be read
   */
  verify(text: string): Promise<VerifiedJwt>;
}

const MAX_JWT_LENGTH = 8 * 1024;
/** Maximum lifetime of a JWT. The lifetime is limited, because a stolen JWT cannot be revoked. */
const MAX_LIFETIME_MS = 24 * 3_600_000;

export function openJwtVerifier(options: JwtOptions, clock: Clock, logger: Logger): JwtVerifier {
  const keys = issuerKeys(options.jwksUrl, clock, logger);
  const { issuer, audience, algorithms, clockSkewSeconds } = options;
  return {
    isJwt: (text) => text.includes('.'),
    verify: async (text) => {
      if (text.length > MAX_JWT_LENGTH) throw invalid(`it has more than ${MAX_JWT_LENGTH} characters`);
      const currentDate = new Date(clock.now());
      const verified = await jwtVerify(text, keys, {
        ...{ issuer, audience, algorithms: [...algorithms], clockTolerance: clockSkewSeconds, currentDate },
        requiredClaims: ['exp', 'sub'],
      }).catch((error: unknown) => {
        if (error instanceof Unavailable) throw error;
        const reason = reasonOf(error);
        // Warns the operator, because the client cannot repair a bad key of the issuer.
        if (reason === undefined) logger.warn('jwt_key_unusable', { kind: errorNameOf(error) });
        throw invalid(reason ?? 'its key cannot be used');
      });
      return claimsOf(verified.payload, options, clock.now());
    },
  };
}

function claimsOf(payload: JWTPayload, { claims, clockSkewSeconds }: JwtOptions, nowMs: number): VerifiedJwt {
  const { iss, sub, exp = 0 } = payload;
  if (typeof sub !== 'string' || sub === '') throw invalid('its claim sub is not a string or is empty');
  const endsAtMs = Math.floor((exp + clockSkewSeconds) * 1000);
  if (exp * 1000 - nowMs > MAX_LIFETIME_MS)
    throw invalid('its claim exp is more than 24 hours in the future');
  const uuidIn = (claim: string, value = payload[claim]): string => {
    const id = typeof value === 'string' ? canonicalUuid(value) : undefined;
    if (id === undefined) throw invalid(`its claim ${claim} is missing or is not a UUID`);
    return id;
  };
  return {
    id: uuidV8(
      createHash('sha256')
        .update(JSON.stringify([iss, sub]))
        .digest(),
    ),
    projectId: uuidIn(claims.project),
    tenantId: payload[claims.tenant] === undefined ? undefined : uuidIn(claims.tenant),
    scopes: scopesIn(payload[claims.scopes]),
    buildIds: listIn(payload[claims.builds])?.map((one) => uuidIn(claims.builds, one)) ?? null,
    endsAtMs,
  };
}

function scopesIn(claim: unknown): readonly Scope[] {
  const named = listIn(claim) ?? [];
  return SCOPES.filter((scope) => named.includes(scope));
}

/** Returns the list in a claim: a JSON array, or a text with spaces between the elements (RFC 8693, section 4.2). */
function listIn(claim: unknown): readonly unknown[] | undefined {
  if (claim === undefined || Array.isArray(claim)) return claim;
  return typeof claim === 'string' ? claim.split(' ') : [claim];
}

function reasonOf(error: unknown): string | undefined {
  if (error instanceof errors.JWTExpired) return 'it has expired';
  if (error instanceof errors.JWTClaimValidationFailed) {
    const { claim, reason } = error;
    if (reason === 'missing') return `it lacks the claim ${claim}`;
    if (claim === 'nbf' && reason === 'check_failed') return 'it is not valid yet (nbf)';
    return `its claim ${claim} does not have the required value`;
  }
  if (error instanceof errors.JOSEAlgNotAllowed)
    return 'it is signed with an algorithm that is not allowed here';
  if (error instanceof errors.JWSSignatureVerificationFailed) return 'its signature is not valid';
  if (error instanceof errors.JWKSNoMatchingKey)
    return 'its issuer has no key with this kid for this algorithm';
  if (error instanceof errors.JWKSMultipleMatchingKeys)
    return 'it has no kid, and several keys of its issuer match';
  if (error instanceof errors.JWSInvalid || error instanceof errors.JWTInvalid) return 'it is malformed';
  return error instanceof errors.JOSENotSupported ? 'it requires a feature that is not supported' : undefined;
}

function errorNameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

function invalid(reason: string): Rejected {
  return new Rejected('unauthorized', `the access token is not a valid JWT: ${reason}`, {
    headers: { 'WWW-Authenticate': 'Bearer realm="questlog", error="invalid_token"' },
  });
}
