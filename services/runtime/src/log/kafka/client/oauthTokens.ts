/** Bearer tokens for SASL OAUTHBEARER (KIP-255), had by the client credentials grant (RFC 6749, section 4.4). */
import { Unavailable } from '../../../process/errors.ts';

export interface ClientCredentials {
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Empty: none is asked for. */
  readonly scope: string;
}

/** The token server knows neither this client nor this secret, or gives it no such token. */
export class TokenRejected extends Unavailable {}

const RESPONSE_LIMIT_MS = 10_000;
/** Each broker's connection asks, and again before its session ends: a token serves until so near its end. */
const EXPIRY_MARGIN_MS = 60_000;
/** A token's lifetime if the answer does not say it (RFC 6749 only recommends that). */
const DEFAULT_LIFETIME_SECONDS = 300;

/** Gives a token that is good for a while yet; those who ask at the same time share one request. */
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

/** @throws TokenRefused; Unavailable when the server gives nobody any. Both say what it answered, never the secret. */
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
      `the token server at ${tokenUrl} refuses these credentials (status ${response.status})`,
    );
  }
  if (!response.ok || typeof value !== 'string' || typeof lifetimeSeconds !== 'number') {
    throw new Unavailable(`the token server at ${tokenUrl} answered ${response.status} and no token`);
  }
  // A token shorter than the spare is used once.
  return { value, validUntilMs: now() + Math.max(0, lifetimeSeconds * 1000 - EXPIRY_MARGIN_MS) };
}

/** `invalid_client` and the other errors of RFC 6749, section 5.2, and what stands before such a server says itself. */
const REJECTION_STATUSES = [400, 401, 403];

function fieldsOf(text: string): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' && parsed !== null ? { ...parsed } : {};
  } catch {
    return {};
  }
}
