/**
 * A build's id: a UUIDv8 (RFC 9562) made from what the build is, the same everywhere and for ever. Nobody has to look it
 * up, and two clients of one build agree.
 */
import { createHash } from 'node:crypto';
import { uuidV8 } from './uuid.ts';

export interface Build {
  readonly version: string;
  readonly platform: string;
  readonly gitCommit: string | null;
  readonly channel: string | null;
}

/** Changes with the rule below, which would give every build another id. */
const RULE = 'questlog build 1';

/**
 * The first 16 bytes of SHA-256 over the rule's name, the project's id in lower case, version, platform, commit and
 * channel: each as its length in UTF-8 bytes (4 bytes, big-endian) and these bytes. What was left out has no bytes.
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
