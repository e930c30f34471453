/** Encrypts log positions in cursors and stream ids, because plain offsets would reveal how much other tenants write. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import type { DirectoryHandle } from '../directory/openDirectory.ts';
import type { Clock } from '../process/clock.ts';
import {
  type CursorCipher,
  FORMAT_VERSION,
  NONCE_BYTES,
  OVERHEAD_BYTES,
  TAG_BYTES,
} from './core/cursorCipher.ts';

export interface CursorCiphers {
  /** Returns a cipher for one purpose in one project. No other cipher can decrypt its texts. @throws Unavailable */
  for(use: 'stream' | 'page', projectId: string): Promise<CursorCipher>;
}

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
export const CURSOR_SECRET_ID = 'places';

type Secrets = Pick<DirectoryHandle, 'current' | 'change'>;

export function openCursorCiphers(directory: Secrets, clock: Clock): CursorCiphers {
  return {
    for: async (use, projectId) => {
      const secret = await sharedSecret(directory, clock, CURSOR_SECRET_ID);
      return cipherWith(
        Buffer.from(hkdfSync('sha256', secret, Buffer.alloc(0), `${use}/${projectId}`, KEY_BYTES)),
      );
    },
  };
}

/** Returns a secret of 32 bytes, which all ingest processes share. Creates the secret if it does not exist. */
export async function sharedSecret(directory: Secrets, clock: Clock, id: string): Promise<Buffer> {
  const existing = directory.current.secrets.get(id);
  if (existing !== undefined) return existing.bytes;
  return await directory.change('secret', id, (current) => {
    if (current !== undefined) return { answer: current.bytes };
    const bytes = randomBytes(KEY_BYTES);
    return { entity: { id, bytes, createdAt: clock.now() }, answer: bytes };
  });
}

/** Returns a cipher with random 96-bit nonces. After 10^12 texts, the odds of a nonce collision are 1 in 150,000. */
function cipherWith(key: Buffer): CursorCipher {
  return {
    encrypt: (position) => {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(CIPHER, key, nonce);
      const encrypted = [cipher.update(position), cipher.final()];
      return Buffer.concat([Buffer.of(FORMAT_VERSION), nonce, ...encrypted, cipher.getAuthTag()]).toString(
        'base64url',
      );
    },
    decrypt: (text) => {
      const bytes = Buffer.from(text, 'base64url');
      // Rejects characters that are not base64url, because `Buffer.from` ignores such characters.
      if (
        bytes.length < OVERHEAD_BYTES ||
        bytes[0] !== FORMAT_VERSION ||
        bytes.toString('base64url') !== text
      ) {
        return undefined;
      }
      const nonce = bytes.subarray(1, 1 + NONCE_BYTES);
      const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
      decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
      try {
        return Buffer.concat([
          decipher.update(bytes.subarray(1 + NONCE_BYTES, -TAG_BYTES)),
          decipher.final(),
        ]);
      } catch {
        return undefined;
      }
    },
  };
}
