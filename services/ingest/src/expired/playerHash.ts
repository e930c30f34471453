/**
 * Keyed hash of a player id in `expired_sessions`: AES-256 of half a SHA-256. ClickHouse hides keys from its logs only
 * in `encrypt`, so an HMAC is not used.
 */
import { createCipheriv, createHash } from 'node:crypto';

export interface PlayerKey {
  /** Never 0. Identifies the key of a hash. */
  readonly id: number;
  /** 32 bytes. */
  readonly bytes: Buffer;
}

export type PlayerIdKind = 'external' | 'device';

const CIPHER = 'aes-256-ecb';
const HASH_BYTES = 16;

export function playerKeyOf(bytes: Buffer): PlayerKey {
  return { id: createHash('sha256').update(bytes).digest().readUInt32BE(0) || 1, bytes };
}

/** Returns hexadecimal digits. The hash depends on the tenant. */
export function playerHash({ bytes }: PlayerKey, kind: PlayerIdKind, tenantId: string, id: string): string {
  const digest = createHash('sha256').update(`${kind}/${tenantId}/${id}`).digest();
  const cipher = createCipheriv(CIPHER, bytes, null).setAutoPadding(false);
  return cipher.update(digest.subarray(0, HASH_BYTES)).toString('hex');
}

/** Returns the same hash in SQL. NULL has a hash of zeros. */
export function playerHashSql({ bytes }: PlayerKey, kind: PlayerIdKind, column: string): string {
  const text = `concat('${kind}/', toString(tenant_id), '/', ifNull(${column}, ''))`;
  const digest = `substring(SHA256(${text}), 1, ${HASH_BYTES})`;
  const hash = `substring(encrypt('${CIPHER}', ${digest}, unhex('${bytes.toString('hex')}')), 1, ${HASH_BYTES})`;
  return `toFixedString(if(isNull(${column}), '', ${hash}), ${HASH_BYTES})`;
}
