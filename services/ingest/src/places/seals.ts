/**
 * What clients are given of a place in the log (ids of a stream, cursors of pages) is sealed: partitions are shared, and
 * an offset that can be read tells how much the other tenants write. The key is a secret of the deployment, kept in the
 * directory, so that every ingest opens what another one has closed.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import type { Clock } from '@questlog/runtime/process/clock';
import { NONCE_BYTES, SEAL_BYTES, SEALED, type Seal, TAG_BYTES } from '../core/sealed.ts';

export interface Seals {
  /** One use's text says nothing under another, nor under another project. @throws Unavailable */
  of(use: 'stream' | 'page', projectId: string): Promise<Seal>;
}

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
/** Its id in the directory. */
export const SECRET_OF_PLACES = 'places';

export interface SealsDeps {
  readonly directory: Pick<DirectoryHandle, 'current' | 'change'>;
  readonly clock: Clock;
}

/** The secret is made when it is first needed; of processes that make it at once, one does. */
export function openSeals(deps: SealsDeps): Seals {
  return {
    of: async (use, projectId) =>
      sealWith(
        Buffer.from(
          hkdfSync(
            'sha256',
            await secretOf(deps, SECRET_OF_PLACES),
            Buffer.alloc(0),
            `${use}/${projectId}`,
            KEY_BYTES,
          ),
        ),
      ),
  };
}

/**
 * Returns the secret with this name: 32 bytes that all processes of the deployment share. Creates the secret if it does
 * not exist.
 */
export async function secretOf({ directory, clock }: SealsDeps, id: string): Promise<Buffer> {
  const known = directory.current.secrets.get(id);
  if (known !== undefined) return known.bytes;
  return await directory.change('secret', id, (there) => {
    if (there !== undefined) return { answer: there.bytes };
    const bytes = randomBytes(KEY_BYTES);
    return { entity: { id, bytes, createdAt: clock.now() }, answer: bytes };
  });
}

/** Random nonces of 96 bits: after a million million texts of one project, two are the same with odds of 1 in 150,000. */
function sealWith(key: Buffer): Seal {
  return {
    close: (place) => {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(CIPHER, key, nonce);
      const closed = [cipher.update(place), cipher.final()];
      return Buffer.concat([Buffer.of(SEALED), nonce, ...closed, cipher.getAuthTag()]).toString('base64url');
    },
    open: (text) => {
      const bytes = Buffer.from(text, 'base64url');
      // Decoding base64url ignores what does not belong there.
      if (bytes.length < SEAL_BYTES || bytes[0] !== SEALED || bytes.toString('base64url') !== text) {
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
