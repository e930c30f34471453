/** Caches the public keys of the JWT issuer. Uses them for an hour if the issuer is unavailable, and then answers 503. */
import type { Clock } from '@questlog/runtime/process/clock';
import { messageOf, Unavailable } from '@questlog/runtime/process/errors';
import type { Logger } from '@questlog/runtime/process/logger';
import { createRemoteJWKSet, customFetch, type JWTVerifyGetKey } from 'jose';

const REFRESH_MS = 10 * 60_000;
const CACHE_MAX_AGE_MS = 60 * 60_000;
const COOLDOWN_MS = 30_000;
const REQUEST_TIMEOUT_MS = 5_000;
/** Minimum time between a failed request for the issuer's keys and the retry. Until then, JWTs with unknown keys get a 503. */
const RETRY_MS = 5_000;
const MAX_BYTES = 256 * 1024;

/** Returns a function that finds the public key of a JWT. The function throws errors of the library jose, or Unavailable. */
export function issuerKeys(url: URL, clock: Clock, logger: Logger): JWTVerifyGetKey {
  let readAtMs = Number.NEGATIVE_INFINITY;
  let failedAtMs = Number.NEGATIVE_INFINITY;
  const unavailable = () =>
    new Unavailable('the keys of the JWT issuer cannot be read', { retryAfterS: RETRY_MS / 1000 });
  const read = async (address: string, options: RequestInit): Promise<Response> => {
    if (clock.now() - failedAtMs < RETRY_MS) throw unavailable();
    try {
      const keys = await readKeys(address, options);
      readAtMs = clock.now();
      return Response.json(keys);
    } catch (error) {
      failedAtMs = clock.now();
      // Logs the issuer's URL without the query, because the query can contain a secret.
      logger.warn('jwks_not_read', { url: url.origin + url.pathname, cause: messageOf(error) });
      throw unavailable();
    }
  };
  const keys = createRemoteJWKSet(url, {
    ...{ cacheMaxAge: CACHE_MAX_AGE_MS, cooldownDuration: COOLDOWN_MS, timeoutDuration: REQUEST_TIMEOUT_MS },
    [customFetch]: read,
  });
  return async (header, token) => {
    const isOld = clock.now() - readAtMs >= REFRESH_MS && clock.now() - failedAtMs >= RETRY_MS;
    // Reads the keys again if they are old, because the issuer may have revoked a key.
    const reading = keys.fresh && isOld ? keys.reload().catch(() => undefined) : undefined;
    // Uses the cached keys without waiting if the latest request to the issuer failed.
    if (failedAtMs < readAtMs) await reading;
    return await keys(header, token);
  };
}

async function readKeys(url: string, options: RequestInit): Promise<object> {
  const response = await fetch(url, options);
  if (response.status !== 200)
    throw new Error(`the request for the JWKS returned status ${response.status} instead of 200`);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > MAX_BYTES) throw new Error(`the JWKS has more than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  const parsed: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'));
  if (isKeySet(parsed)) return parsed;
  throw new Error('the JWKS is not an object with a list of keys');
}

function isKeySet(parsed: unknown): parsed is object {
  const keys: unknown =
    typeof parsed === 'object' && parsed !== null ? Reflect.get(parsed, 'keys') : undefined;
  return Array.isArray(keys) && keys.every((key) => typeof key === 'object' && key !== null);
}
