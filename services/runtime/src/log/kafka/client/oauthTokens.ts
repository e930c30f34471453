/** Requests bearer tokens for SASL OAUTHBEARER (KIP-255) with the client credentials grant (RFC 6749, section 4.4). */
import { Unavailable } from '../../../process/errors.ts';

export interface ClientCredentials {
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** OAuth scope of the token. If the scope is empty, the request has no scope. */
  readonly scope: string;
}

/** Reports that the token server rejected the client id, the secret, or the scope. */
export class TokenRejected extends Unavailable {}

const RESPONSE_LIMIT_MS = 10_000;
/** Minimum remaining lifetime of a cached token. If a token expires earlier, a new connection requests a new token. */
const EXPIRY_MARGIN_MS = 60_000;
/** Lifetime of a token if the response has no `expires_in`, which RFC 6749 only recommends. */
const DEFAULT_LIFETIME_SECONDS = 300;

/** Returns a function that resolves to a valid token. Concurrent calls share one request. */
export function oauthTokens(
  credentials: ClientCredentials,
  now: () => number = Date.now,
): () => Promise<string> {
  let latest: Promise<Token> | undefined;
  const request = (): Promise<Token> => {
    const requested = requestToken(credentials, now);
    latest = requested;
    requested.catch(() => {
      if (latest === requested) latest = undefined;
    });
    return requested;
  };
  return async () => {
    const requested = latest ?? request();
    const token = await requested;
    if (now() < token.validUntilMs) return token.value;
    const next = latest === undefined || latest === requested ? request() : latest;
    return (await next).value;
  };
}

interface Token {
  readonly value: string;
  readonly validUntilMs: number;
}

/**
 * Requests a token. The error messages never contain the secret.
 * @throws TokenRejected if the server rejects the credentials.
 * @throws Unavailable if the server returns no token for another reason.
 */
async function requestToken(credentials: ClientCredentials, now: () => number): Promise<Token> {
  const { tokenUrl, clientId, clientSecret, scope } = credentials;
  const basicCredentials = Buffer.from(`${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}`);
  const response = await fetch(tokenUrl, {
    method: 'POST',
    headers: { Authorization: `Basic ${basicCredentials.toString('base64')}`, Accept: 'application/json' },
    body: new URLSearchParams({ grant_type: 'client_credentials', ...(scope === '' ? {} : { scope }) }),
    signal: AbortSignal.timeout(RESPONSE_LIMIT_MS),
  }).catch((cause: unknown) => {
    throw new Unavailable(`the token server at ${tokenUrl} does not answer`, { cause });
  });
  const text = await response.text();
  const { access_token: value, expires_in: lifetimeSeconds = DEFAULT_LIFETIME_SECONDS } = fieldsOf(text);
  if (REJECTION_STATUSES.includes(response.status)) {
    throw new TokenRejected(
      `the token server at ${tokenUrl} rejects the credentials (status ${response.status})`,
    );
  }
  if (!response.ok || typeof value !== 'string' || typeof lifetimeSeconds !== 'number') {
    throw new Unavailable(
      `the token server at ${tokenUrl} answered status ${response.status} without a token`,
    );
  }
  // A token with a lifetime below `EXPIRY_MARGIN_MS` is used for one connection only.
  return { value, validUntilMs: now() + Math.max(0, lifetimeSeconds * 1000 - EXPIRY_MARGIN_MS) };
}

/** Status codes for rejected credentials (RFC 6749, section 5.2). A proxy can also return these codes. */
const REJECTION_STATUSES = [400, 401, 403];

function fieldsOf(text: string): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' && parsed !== null ? { ...parsed } : {};
  } catch {
    return {};
  }
}
