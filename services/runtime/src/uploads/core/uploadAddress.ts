/** Formats and checks upload addresses. An HMAC-SHA-256 signature in the address authorizes the upload. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { canonicalUuid, isUuidV7 } from '@questlog/schemas/uuid';
import { Rejected } from '../../http/rejected.ts';
import { storageKey, type UploadTarget } from './uploadKey.ts';

export const UPLOAD_PATH = '/v1/uploads/';

export function uploadPath(target: UploadTarget, signingKey: Buffer): string {
  const { key, mimeType, maxBytes, isExact, expiresAtMs, tokenId } = target;
  const query = new URLSearchParams({
    project: key.projectId,
    type: mimeType,
    [isExact ? 'bytes' : 'limit']: String(maxBytes),
    expires: String(expiresAtMs),
    token: tokenId,
    signature: signatureOf(target, signingKey).toString('base64url'),
  });
  return `${UPLOAD_PATH}${key.uploadId}?${query}`;
}

/** @throws Rejected `invalid_upload_address` if the signature is wrong or the address has expired */
export function readUploadPath(
  id: string,
  query: Readonly<Record<string, string | readonly string[] | undefined>>,
  { signingKey, nowMs }: { signingKey: Buffer; nowMs: number },
): UploadTarget {
  const textOf = (name: string): string => {
    const value = query[name];
    return typeof value === 'string' ? value : '';
  };
  const uploadId = canonicalUuid(id) ?? '';
  const projectId = canonicalUuid(textOf('project')) ?? '';
  const isExact = textOf('bytes') !== '';
  const target: UploadTarget = {
    key: { projectId, uploadId },
    mimeType: textOf('type'),
    maxBytes: wholeNumber(textOf(isExact ? 'bytes' : 'limit')),
    isExact,
    expiresAtMs: wholeNumber(textOf('expires')),
    tokenId: textOf('token'),
  };
  if (!isUuidV7(uploadId) || projectId === '' || !isSigned(target, textOf('signature'), signingKey)) {
    throw new Rejected('invalid_upload_address', 'the address is not a valid upload address');
  }
  if (nowMs >= target.expiresAtMs) {
    throw new Rejected('invalid_upload_address', 'the address has expired; ask for a new upload');
  }
  return target;
}

function isSigned(target: UploadTarget, given: string, signingKey: Buffer): boolean {
  const signature = Buffer.from(given, 'base64url');
  const wanted = signatureOf(target, signingKey);
  return signature.length === wanted.length && timingSafeEqual(signature, wanted);
}

/** Signs the parameters as a JSON array, because concatenated parameters would be ambiguous. */
function signatureOf(target: UploadTarget, signingKey: Buffer): Buffer {
  const { key, mimeType, maxBytes, isExact, expiresAtMs, tokenId } = target;
  const said = JSON.stringify([storageKey(key), mimeType, maxBytes, isExact, expiresAtMs, tokenId]);
  return createHmac('sha256', signingKey).update(said).digest();
}

/** Returns NaN if the text is not a whole number. The signature check fails for NaN. */
function wholeNumber(text: string): number {
  return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
}
