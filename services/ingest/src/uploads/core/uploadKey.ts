/** Where an upload lies in a store, and what is told of it beside its bytes. Pure. */
import { AttachmentType } from '@questlog/schemas/http/upload';
import { millisOf } from '@questlog/schemas/uuid';
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';

/** Both ids in lower case. The project is a part of the name: another project's upload is not to be found. */
export interface UploadKey {
  readonly projectId: string;
  /** A UUIDv7; its time says the day. */
  readonly uploadId: string;
}

/** `<day of the id>/<project>/<upload>`. The description is the same with `.json` behind it. */
export function storageKey({ projectId, uploadId }: UploadKey): string {
  return `${dayOf(millisOf(uploadId))}/${projectId}/${uploadId}`;
}

/** `yyyy-mm-dd`, in UTC. */
export function dayOf(millis: number): string {
  return new Date(millis).toISOString().slice(0, 10);
}

/** What the request for an upload told; kept beside the bytes. */
export const UploadDescription = Type.Object({
  attachmentType: AttachmentType,
  fileName: Type.String(),
  mimeType: Type.String(),
  /** What the bytes must be; null where the request did not tell. */
  sizeBytes: Type.Union([Type.Integer(), Type.Null()]),
  sessionId: Type.Union([Type.String(), Type.Null()]),
  /** Of the address that takes the bytes. */
  expiresAt: Type.String(),
});
export type UploadDescription = Static<typeof UploadDescription>;

const validator = Compile(UploadDescription);

/** @throws where the text is not what a store wrote. */
export function parseDescription(text: string): UploadDescription {
  return validator.Parse(JSON.parse(text));
}

/** What one address takes. */
export interface UploadTarget {
  readonly key: UploadKey;
  readonly mimeType: string;
  readonly maxBytes: number;
  /** Whether the file must have `maxBytes`, as its request told its size. */
  readonly isExact: boolean;
  readonly expiresAtMs: number;
  /** The token that asked for the address, as `credentialOf` tells it; the address ends with it. */
  readonly tokenId: string;
}
