/** Storage keys and descriptions of uploads. Pure. */
import { AttachmentType } from '@questlog/schemas/http/upload';
import { millisOf } from '@questlog/schemas/uuid';
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';

/** Key of an upload, with ids in lower case. The key contains the project, so other projects cannot find the upload. */
export interface UploadKey {
  readonly projectId: string;
  readonly uploadId: string;
}

/** Returns the storage key `<day of the id>/<project>/<upload>`. The storage key of the description has the suffix `.json`. */
export function storageKey({ projectId, uploadId }: UploadKey): string {
  return `${dayOf(millisOf(uploadId))}/${projectId}/${uploadId}`;
}

/** Returns a UTC day as `yyyy-mm-dd`. */
export function dayOf(millis: number): string {
  return new Date(millis).toISOString().slice(0, 10);
}

export const UploadDescription = Type.Object({
  attachmentType: AttachmentType,
  fileName: Type.String(),
  mimeType: Type.String(),
  /** Size of the file in bytes. Null if the request stated no size. */
  sizeBytes: Type.Union([Type.Integer(), Type.Null()]),
  sessionId: Type.Union([Type.String(), Type.Null()]),
  expiresAt: Type.String(),
});
export type UploadDescription = Static<typeof UploadDescription>;

const validator = Compile(UploadDescription);

/** @throws Error if no store wrote the text. */
export function parseDescription(text: string): UploadDescription {
  return validator.Parse(JSON.parse(text));
}

export interface UploadTarget {
  readonly key: UploadKey;
  readonly mimeType: string;
  readonly maxBytes: number;
  /** True if the file must have exactly `maxBytes` bytes. */
  readonly isExact: boolean;
  readonly expiresAtMs: number;
  /** Credential that requested the address, in the format of `credentialOf`. */
  readonly tokenId: string;
}
