/** Bodies of requests and responses about uploads. A bug report can name files that a game uploaded in advance. */
import Type, { type Static } from 'typebox';
import { UUID_PATTERN } from '../uuid.ts';
import { EXAMPLE_SESSION, Nullable, Timestamp, Uuid } from './fields.ts';

const MIB = 1024 * 1024;

/** Limits of uploaded files by kind of file. If `mimeTypes` is undefined, all media types are accepted. */
export const UPLOAD_LIMITS = {
  screenshot: { maxBytes: 10 * MIB, mimeTypes: ['image/png', 'image/jpeg', 'image/webp'] },
  video: { maxBytes: 500 * MIB, mimeTypes: ['video/webm', 'video/mp4'] },
  save_state: { maxBytes: 100 * MIB, mimeTypes: undefined },
  log_bundle: { maxBytes: 50 * MIB, mimeTypes: undefined },
  other: { maxBytes: 50 * MIB, mimeTypes: undefined },
} as const satisfies Record<string, { maxBytes: number; mimeTypes: readonly string[] | undefined }>;

export const MAX_UPLOAD_BYTES_PER_REPORT = 600 * MIB;

export const UPLOAD_ADDRESS_LIFETIME_MS = 60 * 60 * 1000;

export const AttachmentType = Type.Enum(['screenshot', 'video', 'save_state', 'log_bundle', 'other'], {
  description: 'Kind of file. It determines the maximum size and the accepted media types.',
});
export type AttachmentType = Static<typeof AttachmentType>;

export const UploadInput = Type.Object(
  {
    sessionId: Type.Optional(
      Type.String({
        pattern: `^$|${UUID_PATTERN}`,
        description: 'Session in which the file was created; `""` means omitted. The session need not exist.',
      }),
    ),
    attachmentType: AttachmentType,
    fileName: Type.String({
      format: 'file-name',
      minLength: 1,
      maxLength: 255,
      description: 'Without path separators and control characters.',
    }),
    mimeType: Type.String({
      format: 'media-type',
      minLength: 1,
      maxLength: 255,
      description: 'A screenshot is PNG, JPEG or WebP; a video is WebM or MP4.',
    }),
    sizeBytes: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'Exact size of the file. Required if files are stored in S3.',
      }),
    ),
  },
  {
    examples: [
      {
        attachmentType: 'log_bundle',
        fileName: 'game.log',
        mimeType: 'text/plain',
        sessionId: EXAMPLE_SESSION,
        sizeBytes: 3223,
      },
    ],
  },
);
export type UploadInput = Static<typeof UploadInput>;

export const UploadOutput = Type.Object(
  {
    uploadId: Uuid,
    storageKey: Type.String({ description: 'Key of the file in the store.' }),
    uploadUrl: Type.String({
      format: 'uri',
      description: 'Address for the `PUT` of the bytes, without a token, valid until `expiresAt`.',
    }),
    publicUrl: Nullable(
      Type.String({ description: 'Always null. Read a file with a token at `GET /v1/uploads/{id}`.' }),
    ),
    expiresAt: Timestamp,
    requiredHeaders: Type.Object(
      { 'Content-Type': Type.String() },
      { description: 'Headers that the `PUT` must have.' },
    ),
  },
  {
    examples: [
      {
        uploadId: '01a1fe02-7454-7000-a110-3027adf24232',
        storageKey: '2026-11-21/5b3ff1a9-5c2e-4d5e-8f5e-2b6b3d3c1f10/01a1fe02-7454-7000-a110-3027adf24232',
        uploadUrl:
          'https://telemetry.example.com/v1/uploads/01a1fe02-7454-7000-a110-3027adf24232?project=5b3ff1a9-5c2e-4d5e-8f5e-2b6b3d3c1f10&type=text%2Fplain&bytes=3223&expires=1795266536148&signature=Y2Vy',
        publicUrl: null,
        expiresAt: '2026-11-21T13:08:56.148Z',
        requiredHeaders: { 'Content-Type': 'text/plain' },
      },
    ],
  },
);
export type UploadOutput = Static<typeof UploadOutput>;

export const UploadStored = Type.Object({
  uploadId: Uuid,
  sizeBytes: Type.Integer({ minimum: 0, description: 'Number of stored bytes.' }),
});
export type UploadStored = Static<typeof UploadStored>;
