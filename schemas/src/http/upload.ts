/** Uploads: a game asks for an address, puts a file's bytes there, and names the file in a bug report. */
import Type, { type Static } from 'typebox';
import { UUID_PATTERN } from '../uuid.ts';
import { EXAMPLE_SESSION, Nullable, Timestamp, Uuid } from './fields.ts';

const MIB = 1024 * 1024;

/** For each kind of file the most bytes, and the media types where not every one is taken. */
export const UPLOAD_LIMITS = {
  screenshot: { maxBytes: 10 * MIB, mimeTypes: ['image/png', 'image/jpeg', 'image/webp'] },
  video: { maxBytes: 500 * MIB, mimeTypes: ['video/webm', 'video/mp4'] },
  save_state: { maxBytes: 100 * MIB, mimeTypes: undefined },
  log_bundle: { maxBytes: 50 * MIB, mimeTypes: undefined },
  other: { maxBytes: 50 * MIB, mimeTypes: undefined },
} as const satisfies Record<string, { maxBytes: number; mimeTypes: readonly string[] | undefined }>;

/** Of all files that one bug report names. */
export const MAX_UPLOAD_BYTES_PER_REPORT = 600 * MIB;

/** How long the address of an upload takes its bytes. */
export const UPLOAD_ADDRESS_LIFETIME_MS = 60 * 60 * 1000;

export const AttachmentType = Type.Enum(['screenshot', 'video', 'save_state', 'log_bundle', 'other'], {
  description: 'The kind of file; it decides about size and media type.',
});
export type AttachmentType = Static<typeof AttachmentType>;

export const UploadInput = Type.Object(
  {
    sessionId: Type.Optional(
      Type.String({
        pattern: `^$|${UUID_PATTERN}`,
        description: 'The session that the file was made in; `""` is as if omitted. It is not looked up.',
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
        description: 'What the file must then have. Needed where files go to S3.',
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
    storageKey: Type.String({ description: 'Where the file lies in the store.' }),
    uploadUrl: Type.String({
      format: 'uri',
      description: 'Takes the bytes by `PUT`, without a token, until `expiresAt`.',
    }),
    publicUrl: Nullable(
      Type.String({ description: 'Always null: a file is read with a token, at `GET /v1/uploads/{id}`.' }),
    ),
    expiresAt: Timestamp,
    requiredHeaders: Type.Object(
      { 'Content-Type': Type.String() },
      { description: 'Headers that the `PUT` must carry.' },
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
  sizeBytes: Type.Integer({ minimum: 0, description: 'The bytes that are stored.' }),
});
export type UploadStored = Static<typeof UploadStored>;
