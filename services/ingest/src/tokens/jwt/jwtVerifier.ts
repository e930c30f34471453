/**
 * JWTs of a configured issuer instead of tokens of the directory (RFC 7519, RFC 8725): whether one is valid, and which project
 * it may do what in. Nothing of a token or its claims goes into an answer or the log.
 */
import { createHash } from 'node:crypto';
import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { SCOPES, type Scope } from '@questlog/schemas/topics/directoryEntry';
import { canonicalUuid, uuidV8 } from '@questlog/schemas/uuid';
import { errors, type JWTPayload, jwtVerify } from 'jose';
import { Rejected } from '../../rejected.ts';
import { issuerKeys } from './issuerKeys.ts';

export interface JwtOptions {
  readonly jwksUrl: URL;
  readonly issuer: string;
  readonly audience: string;
  /** Whose verification takes a public key: with a secret one, whoever knows the public key could sign. */
  readonly algorithms: readonly string[];
  readonly clockSkewSeconds: number;
  /** Names of claims. */
  readonly claims: Readonly<Record<'project' | 'tenant' | 'scopes' | 'builds', string>>;
}

export interface VerifiedJwt {
  /** Stands for its issuer and subject. */
  readonly id: string;
  readonly projectId: string;
  /** Undefined: it names none. */
  readonly tenantId?: string | undefined;
  readonly scopes: readonly Scope[];
  /** Of which it may write; null: of all. */
  readonly buildIds: readonly string[] | null;
  /** With the skew of clocks. */
  readonly endsAtMs: number;
}

export interface JwtVerifier {
  /** Whether a bearer token is to be verified here: tokens of the directory have no dots. */
  isJwt(text: string): boolean;
  /** @throws Rejected 401 that says why; Unavailable while the issuer's keys cannot be read. */
  verify(text: string): Promise<VerifiedJwt>;
}

/** Before anything of it is decoded. */
const MAX_JWT_LENGTH = 8 * 1024;
/** One that is stolen ends by its expiry alone. */
const MAX_LIFETIME_MS = 24 * 3_600_000;

export function openJwtVerifier(
  options: JwtOptions,
  deps: { readonly clock: Clock; readonly logger: Logger },
): JwtVerifier {
  const { clock, logger } = deps;
  const keys = issuerKeys(options.jwksUrl, deps);
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
        // A key that cannot be used is the issuer's fault, which its operators must hear of.
        if (reason === undefined) logger.warn('jwt_key_unusable', { kind: errorNameOf(error) });
        throw invalid(reason ?? 'the key that it names cannot be used');
      });
      return claimsOf(verified.payload, options, clock.now());
    },
  };
}

function claimsOf(payload: JWTPayload, { claims, clockSkewSeconds }: JwtOptions, nowMs: number): VerifiedJwt {
  const { iss, sub, exp = 0 } = payload;
  if (typeof sub !== 'string' || sub === '') throw invalid('its claim sub is not a text');
  const endsAtMs = Math.floor((exp + clockSkewSeconds) * 1000);
  if (exp * 1000 - nowMs > MAX_LIFETIME_MS) throw invalid('its claim exp is more than 24 hours ahead');
  const uuidIn = (claim: string, value = payload[claim]): string => {
    const id = typeof value === 'string' ? canonicalUuid(value) : undefined;
    if (id === undefined) throw invalid(`its claim ${claim} is missing, or is no UUID`);
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

/** Those of other services are none of ours. */
function scopesIn(claim: unknown): readonly Scope[] {
  const named = listIn(claim) ?? [];
  return SCOPES.filter((scope) => named.includes(scope));
}

/** As OAuth has lists, separated by spaces (RFC 8693, section 4.2), or as one; whatever else is a list of itself. */
function listIn(claim: unknown): readonly unknown[] | undefined {
  if (claim === undefined || Array.isArray(claim)) return claim;
  return typeof claim === 'string' ? claim.split(' ') : [claim];
}

/** Undefined for what is not the token's fault. */
function reasonOf(error: unknown): string | undefined {
  if (error instanceof errors.JWTExpired) return 'it has expired';
  if (error instanceof errors.JWTClaimValidationFailed) {
    const { claim, reason } = error;
    if (reason === 'missing') return `it lacks the claim ${claim}`;
    if (claim === 'nbf' && reason === 'check_failed') return 'it is not valid yet (nbf)';
    return `its claim ${claim} is not what is asked for here`;
  }
  if (error instanceof errors.JOSEAlgNotAllowed)
    return 'it is signed with an algorithm that is not allowed here';
  if (error instanceof errors.JWSSignatureVerificationFailed) return 'its signature is not valid';
  if (error instanceof errors.JWKSNoMatchingKey) return 'its issuer has no such key (kid) for this algorithm';
  if (error instanceof errors.JWKSMultipleMatchingKeys)
    return 'it does not say which key of its issuer signed it (kid)';
  if (error instanceof errors.JWSInvalid || error instanceof errors.JWTInvalid) return 'it is malformed';
  return error instanceof errors.JOSENotSupported ? 'it asks for what is not supported here' : undefined;
}

function errorNameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

function invalid(reason: string): Rejected {
  return new Rejected('unauthorized', `the access token is not a valid JWT: ${reason}`, {
    headers: { 'WWW-Authenticate': 'Bearer realm="questlog", error="invalid_token"' },
  });
}
