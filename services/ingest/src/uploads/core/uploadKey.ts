/** Storage keys and descriptions of uploads. Pure. */
import { AttachmentType } from '@questlog/schemas/http/upload';
import { millisOf } from '@questlog/schemas/uuid';
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';

/**
 * Key of an upload, with ids in lower case. The key contains the project, so that another project cannot find the
 * upload.
 */
export interface UploadKey {
  readonly projectId: string;
  /** A UUIDv7. Its time determines the day. */
  readonly uploadId: string;
}

/** Returns `<day of the id>/<project>/<upload>`. The key of the description also ends in `.json`. */
export function storageKey({ projectId, uploadId }: UploadKey): string {
  return `${dayOf(millisOf(uploadId))}/${projectId}/${uploadId}`;
}

/** `yyyy-mm-dd`, in UTC. */
export function dayOf(millis: number): string {
  return new Date(millis).toISOString().slice(0, 10);
}

/** Data of the request for an upload, stored next to the bytes. */
export const UploadDescription = Type.Object({
  attachmentType: AttachmentType,
  fileName: Type.String(),
  mimeType: Type.String(),
  /** Required size of the bytes. Null if the request did not state a size. */
  sizeBytes: Type.Union([Type.Integer(), Type.Null()]),
  sessionId: Type.Union([Type.String(), Type.Null()]),
  /** Expiry of the upload address. */
  expiresAt: Type.String(),
});
export type UploadDescription = Static<typeof UploadDescription>;

const validator = Compile(UploadDescription);

/** @throws Error if the text was not written by a store. */
export function parseDescription(text: string): UploadDescription {
  return validator.Parse(JSON.parse(text));
}

/** Data of an upload address. */
export interface UploadTarget {
  readonly key: UploadKey;
  readonly mimeType: string;
  readonly maxBytes: number;
  /** True if the file must have exactly `maxBytes`, because its request stated the size. */
  readonly isExact: boolean;
  readonly expiresAtMs: number;
  /** Credential with which the address was requested, by `credentialOf`. The address ends when the credential ends. */
  readonly tokenId: string;
}
