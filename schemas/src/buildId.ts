/** Computes the id of a build, which is a UUIDv8 (RFC 9562). A client can compute the same id without a request. */
import { createHash } from 'node:crypto';
import { uuidV8 } from './uuid.ts';

export interface Build {
  readonly version: string;
  readonly platform: string;
  readonly gitCommit: string | null;
  readonly channel: string | null;
}

/** Version of the rule that computes build ids. Another version gives other ids for the same builds. */
const RULE = 'questlog build 1';

/**
 * Returns a UUIDv8 that is computed from six parts with SHA-256. The parts are the version of the rule (`RULE`), the project id
 * in lower case, version, platform, commit, and channel. The hash input contains the length of each part in UTF-8 bytes (4
 * bytes, big-endian) and the part's bytes. The length of an omitted part is 0.
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
