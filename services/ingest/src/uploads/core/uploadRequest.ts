/** Checks the size, the media type, and the file name in a request for an upload address. Pure. */

import { problem, rejectionOf } from '@questlog/runtime/http/core/fieldProblems';
import { essenceOf, type UploadDescription } from '@questlog/runtime/uploads/core/uploadKey';
import { type AttachmentType, UPLOAD_LIMITS, type UploadInput } from '@questlog/schemas/http/upload';
import { canonicalUuid } from '@questlog/schemas/uuid';

const MAX_NAME = 255;
export const FILE_NAME_RULE = `must be a file name of 1 to ${MAX_NAME} characters without path separators and control characters`;
export const MEDIA_TYPE_RULE = 'must be a media type, such as text/plain';
const NOT_IN_NAMES = /[/\\\p{Cc}\p{Cs}]/u;
const MEDIA_TYPE =
  /^[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+(?:[ \t]*;[ \t]*[\w!#$%&'*+.^`|~-]+=(?:[\w!#$%&'*+.^`|~-]+|"[\w !#-[\]-~]*"))*$/;

/**
 * @param isSizeNeeded true if the request must contain the size
 * @throws Rejected 413 for a size above the limit, 415 for a media type that is not allowed, and 400 for other problems
 */
export function describedUpload(
  input: UploadInput,
  isSizeNeeded: boolean,
): Omit<UploadDescription, 'expiresAt'> {
  const { attachmentType, fileName, mimeType, sizeBytes = null, sessionId = '' } = input;
  if (!isFileName(fileName))
    throw rejectionOf(problem('/fileName', 'field_invalid', `fileName ${FILE_NAME_RULE}`));
  if (!isMediaType(mimeType))
    throw rejectionOf(problem('/mimeType', 'field_invalid', `mimeType ${MEDIA_TYPE_RULE}`));
  if (sizeBytes === null && isSizeNeeded) {
    throw rejectionOf(
      problem(
        '/sizeBytes',
        'field_required',
        'sizeBytes is required, because this deployment stores files in S3',
      ),
    );
  }
  checkMimeType(attachmentType, mimeType);
  checkSize(attachmentType, sizeBytes ?? 0);
  return { attachmentType, fileName, mimeType, sizeBytes, sessionId: canonicalUuid(sessionId) ?? null };
}

export function maxBytesOf(attachmentType: AttachmentType): number {
  return UPLOAD_LIMITS[attachmentType].maxBytes;
}

export function isMediaType(text: string): boolean {
  return MEDIA_TYPE.test(text);
}

export function isFileName(name: string): boolean {
  const isStep = name === '.' || name === '..';
  return !isStep && !NOT_IN_NAMES.test(name) && [...name].length <= MAX_NAME;
}

function checkMimeType(attachmentType: AttachmentType, mimeType: string): void {
  const taken: readonly string[] | undefined = UPLOAD_LIMITS[attachmentType].mimeTypes;
  if (taken === undefined || taken.includes(essenceOf(mimeType))) return;
  const detail = `mimeType: a ${attachmentType} must be one of ${taken.join(', ')}`;
  throw rejectionOf(problem('/mimeType', 'unsupported_file_type', detail), 'unsupported_file_type');
}

function checkSize(attachmentType: AttachmentType, sizeBytes: number): void {
  const maxBytes = maxBytesOf(attachmentType);
  if (sizeBytes <= maxBytes) return;
  const detail = `sizeBytes: a file of type ${attachmentType} has at most ${maxBytes} bytes`;
  throw rejectionOf(problem('/sizeBytes', 'upload_too_large', detail), 'upload_too_large');
}
