/** Storage keys and descriptions of uploaded files. */
import { AttachmentType } from '@questlog/schemas/http/upload';
import { millisOf } from '@questlog/schemas/uuid';
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';

/** Project id and upload id in lower case. The project id prevents other projects from finding the file. */
export interface UploadKey {
  readonly projectId: string;
  readonly uploadId: string;
}

/** Returns the path `<UTC day of the upload id>/<project id>/<upload id>`. The file's description is at `<path>.json`. */
export function storageKey({ projectId, uploadId }: UploadKey): string {
  return `${dayOf(millisOf(uploadId))}/${projectId}/${uploadId}`;
}

export function dayOf(millis: number): string {
  return new Date(millis).toISOString().slice(0, 10);
}

export const UploadDescription = Type.Object({
  attachmentType: AttachmentType,
  fileName: Type.String(),
  mimeType: Type.String(),
  /** Size of the file in bytes. Null if the client stated no size. */
  sizeBytes: Type.Union([Type.Integer(), Type.Null()]),
  sessionId: Type.Union([Type.String(), Type.Null()]),
  expiresAt: Type.String(),
});
export type UploadDescription = Static<typeof UploadDescription>;

const validator = Compile(UploadDescription);

/** Parses a stored description. @throws Error if the text is not a valid description */
export function parseDescription(text: string): UploadDescription {
  return validator.Parse(JSON.parse(text));
}

export interface UploadTarget {
  readonly key: UploadKey;
  readonly mimeType: string;
  readonly maxBytes: number;
  /** True if the file must have exactly `maxBytes` bytes. False if the file can be smaller. */
  readonly isExact: boolean;
  readonly expiresAtMs: number;
  /** Credential of the caller that requested the upload address, in the format of `credentialOf`. */
  readonly tokenId: string;
}

/** Returns the media type in lower case without parameters such as `charset`. */
export function essenceOf(mimeType: string): string {
  return (mimeType.split(';', 1)[0] ?? '').trim().toLowerCase();
}
