/**
 * The keyed hash of a player's id, as `expired_sessions` has it: AES-256 of the first 16 bytes of a SHA-256. An HMAC would do,
 * but ClickHouse hides the key from its logs only if it is an argument of `encrypt`.
 */
import { createCipheriv, createHash } from 'node:crypto';

export interface PlayerKey {
  /** Identifies the key, so that hashes by another key are recognized. Never 0. */
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

/** Returns the hash in hexadecimal. Two tenants have different hashes for the same id. */
export function playerHash({ bytes }: PlayerKey, kind: PlayerIdKind, tenantId: string, id: string): string {
  const digest = createHash('sha256').update(`${kind}/${tenantId}/${id}`).digest();
  const cipher = createCipheriv(CIPHER, bytes, null).setAutoPadding(false);
  return cipher.update(digest.subarray(0, HASH_BYTES)).toString('hex');
}

/** Returns the same hash as an expression of ClickHouse. The hash is zeros if the column is NULL. */
export function playerHashSql({ bytes }: PlayerKey, kind: PlayerIdKind, column: string): string {
  const text = `concat('${kind}/', toString(tenant_id), '/', ifNull(${column}, ''))`;
  const digest = `substring(SHA256(${text}), 1, ${HASH_BYTES})`;
  const hash = `substring(encrypt('${CIPHER}', ${digest}, unhex('${bytes.toString('hex')}')), 1, ${HASH_BYTES})`;
  return `toFixedString(if(isNull(${column}), '', ${hash}), ${HASH_BYTES})`;
}
