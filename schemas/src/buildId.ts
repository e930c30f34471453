/** Computes the id of a build. The id is a UUIDv8 (RFC 9562), which every client can compute without a lookup. */
import { createHash } from 'node:crypto';
import { uuidV8 } from './uuid.ts';

export interface Build {
  readonly version: string;
  readonly platform: string;
  readonly gitCommit: string | null;
  readonly channel: string | null;
}

/** Version of the hash input. A change gives every build a new id. */
const RULE = 'questlog build 1';

/**
 * Returns 16 bytes of a SHA-256 as a UUIDv8. The input contains the rule's name, the project id in lower case, version,
 * platform, commit, and channel. Each part consists of its length in UTF-8 bytes (4 bytes, big-endian) and its bytes. The
 * length of an omitted part is 0.
 */
export function buildIdOf(projectId: string, { version, platform, gitCommit, channel }: Build): string {
  const hash = createHash('sha256');
  for (const part of [RULE, projectId, version, platform, gitCommit ?? '', channel ?? '']) {
    const bytes = Buffer.from(part, 'utf8');
    const length = Buffer.allocUnsafe(4);
    length.writeUInt32BE(bytes.length);
    hash.update(length).update(bytes);
  }
  return uuidV8(hash.digest());
}
