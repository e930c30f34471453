/** Storage keys and descriptions of uploads. Pure. */
import { AttachmentType } from '@questlog/schemas/http/upload';
import { millisOf } from '@questlog/schemas/uuid';
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';

/** Key of an upload, with ids in lower case. It contains the project, so other projects cannot find the upload. */
export interface UploadKey {
  readonly projectId: string;
  readonly uploadId: string;
}

/** Returns `<day of the id>/<project>/<upload>`. The description's key has the suffix `.json`. */
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
  /** Size of the file. Null if the request stated no size. */
  sizeBytes: Type.Union([Type.Integer(), Type.Null()]),
  sessionId: Type.Union([Type.String(), Type.Null()]),
  expiresAt: Type.String(),
});
export type UploadDescription = Static<typeof UploadDescription>;

const validator = Compile(UploadDescription);

/** @throws Error for text that no store wrote. */
export function parseDescription(text: string): UploadDescription {
  return validator.Parse(JSON.parse(text));
}

export interface UploadTarget {
  readonly key: UploadKey;
  readonly mimeType: string;
  readonly maxBytes: number;
  /** True if the file must have exactly `maxBytes`. */
  readonly isExact: boolean;
  readonly expiresAtMs: number;
  /** Credential that requested the address, by `credentialOf`. */
  readonly tokenId: string;
}
