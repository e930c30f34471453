/**
 * Computes the keyed hash of a player id: the first half of the SHA-256 hash, encrypted with AES-256. ClickHouse logs queries,
 * and hides a key only in its function `encrypt`. An HMAC in a query would therefore reveal the key.
 */
import { createCipheriv, createHash } from 'node:crypto';

export interface PlayerKey {
  /** Id of the hash key. The id is never 0. */
  readonly id: number;
  /** Hash key of 32 bytes. */
  readonly bytes: Buffer;
}

export type PlayerIdKind = 'external' | 'device';

const CIPHER = 'aes-256-ecb';
const HASH_BYTES = 16;

export function playerKeyOf(bytes: Buffer): PlayerKey {
  return { id: createHash('sha256').update(bytes).digest().readUInt32BE(0) || 1, bytes };
}

/** Returns the hash as hexadecimal digits. The same player id has different hashes in two tenants. */
export function playerHash({ bytes }: PlayerKey, kind: PlayerIdKind, tenantId: string, id: string): string {
  const digest = createHash('sha256').update(`${kind}/${tenantId}/${id}`).digest();
  const cipher = createCipheriv(CIPHER, bytes, null).setAutoPadding(false);
  return cipher.update(digest.subarray(0, HASH_BYTES)).toString('hex');
}

/** Returns an SQL expression that computes the same hash as `playerHash`. The hash of NULL consists of zeros. */
export function playerHashSql({ bytes }: PlayerKey, kind: PlayerIdKind, column: string): string {
  const text = `concat('${kind}/', toString(tenant_id), '/', ifNull(${column}, ''))`;
  const digest = `substring(SHA256(${text}), 1, ${HASH_BYTES})`;
  const hash = `substring(encrypt('${CIPHER}', ${digest}, unhex('${bytes.toString('hex')}')), 1, ${HASH_BYTES})`;
  return `toFixedString(if(isNull(${column}), '', ${hash}), ${HASH_BYTES})`;
}
