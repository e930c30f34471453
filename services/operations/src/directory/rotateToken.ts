/** Serves POST /admin/tokens/{id}/rotate: replaces a token. The old token stays valid for `overlapSeconds`. */
import { randomUUID } from 'node:crypto';
import { sha256Hex } from '@questlog/runtime/directory/directory';
import type { DirectoryHandle } from '@questlog/runtime/directory/openDirectory';
import { newToken } from '@questlog/runtime/directory/tokenText';
import { problem, rejectionOf, timestampField } from '@questlog/runtime/http/core/fieldProblems';
import { Rejected } from '@questlog/runtime/http/rejected';
import type { Clock } from '@questlog/runtime/process/clock';
import type { TokenRotation } from '@questlog/schemas/http/admin';
import { formatMicros } from '@questlog/schemas/isoTime';
import type { Token } from '@questlog/schemas/topics/directoryEntry';
import { canonicalUuid } from '@questlog/schemas/uuid';

/**
 * Writes the new token before it ends the old token, so that a failure cannot leave a game without a token.
 * @throws Rejected if the token is unknown or was already rotated
 * @throws Unavailable if the directory cannot be changed
 */
export async function rotateToken(
  { current, change, put }: DirectoryHandle,
  clock: Clock,
  { overlapSeconds, expiresAt }: TokenRotation,
  idText: string,
) {
  const rotatable = (known: Token | undefined): Token => {
    if (known === undefined) throw new Rejected('not_found', `there is no token ${idText}`);
    const { rotatedTo } = known;
    if (rotatedTo == null || !current.tokens.has(rotatedTo)) return known;
    throw new Rejected('already_decided', `the token was already rotated; rotate its successor ${rotatedTo}`);
  };
  const nowMs = clock.now();
  const [id, text] = [randomUUID(), newToken()];
  const successor = await change('token', id, () => {
    const old = rotatable(current.tokens.get(canonicalUuid(idText) ?? ''));
    const entity: Token = {
      // Copies all fields of the token, including fields that only a newer version of Questlog defines.
      ...old,
      ...{ id, sha256: sha256Hex(text) },
      expiresAt: expiresAt == null ? sameLifetime(old, expiresAt, nowMs) : expiryOf(expiresAt, nowMs),
      ...{ rotatedFrom: old.id, rotatedTo: null, firstId: old.firstId ?? old.id, createdAt: nowMs },
    };
    return { entity, answer: entity };
  });
  const { scopes } = successor;
  try {
    return await change('token', canonicalUuid(idText) ?? '', (known) => {
      const old = rotatable(known);
      const endsAt = Math.min(old.expiresAt ?? Number.POSITIVE_INFINITY, nowMs + overlapSeconds * 1000);
      const body = {
        ...{ id, token: text, scopes, rotatedFrom: old.id, oldExpiresAt: formatMillis(endsAt) },
        expiresAt: successor.expiresAt === null ? null : formatMillis(successor.expiresAt),
      };
      return { entity: { ...old, expiresAt: endsAt, rotatedTo: id }, answer: { status: 201, body } };
    });
  } catch (error) {
    // Removes the new token only if the rotation was rejected. After another error, the log may contain the rotation.
    if (error instanceof Rejected) await put('token', id, null);
    throw error;
  }
}

export function expiryOf(text: string, nowMs: number): number {
  const expiresAt = Number(timestampField('expiresAt', text) / 1000n);
  if (expiresAt > nowMs) return expiresAt;
  throw rejectionOf(problem('/expiresAt', 'field_invalid', 'expiresAt must be in the future'));
}

export function formatMillis(millis: number): string {
  return formatMicros(BigInt(millis) * 1000n);
}

function sameLifetime(old: Token, expiresAt: null | undefined, nowMs: number): number | null {
  if (expiresAt === undefined && old.rotatedTo != null)
    throw rejectionOf(
      problem(
        '/expiresAt',
        'field_required',
        'expiresAt is required, because the original lifetime of the token is unknown after its first rotation',
      ),
    );
  return expiresAt === null || old.expiresAt === null ? null : nowMs + old.expiresAt - old.createdAt;
}
