/** Operations on uploaded files. */
import { UploadInput, UploadOutput, UploadStored } from '../upload.ts';
import type { GameOperations } from './operation.ts';
import {
  ANY_TEXT,
  answer,
  BYTES,
  header,
  NO_ANSWER,
  NOT_IN_PROJECT,
  PREFER,
  query,
  textHeader,
  UUID_TEXT,
} from './parts.ts';

const INTEGER = { type: 'integer' };

export const UPLOADS = {
  createUpload: {
    route: 'POST /v1/ingest/uploads',
    access: 'reports:write',
    summary: 'Creates an upload, and returns the address for its file.',
    description:
      '`PUT` the bytes to `uploadUrl` with `requiredHeaders`, then name the `uploadId` in a bug report. Maximum sizes: screenshot 10 MiB, ' +
      'log_bundle and other 50 MiB, save_state 100 MiB, video 500 MiB. A file that no report names within 24 hours is removed.',
    parameters: [PREFER],
    body: UploadInput,
    responses: {
      201: answer('The upload and its address.', UploadOutput, {
        headers: textHeader('Location', 'The address from which the file can be read.'),
      }),
      404: 'The session was erased.',
      413: 'The body is too large, or `sizeBytes` exceeds the limit for the `attachmentType`.',
      415: 'The media type of the body is not supported, or the `attachmentType` does not allow the `mimeType`.',
      501: 'Uploads are not configured in this deployment.',
    },
  },
  putUpload: {
    route: 'PUT /v1/uploads/{id}',
    access: 'anyone',
    summary: 'Stores the bytes of an upload. Either all bytes are stored or none.',
    description:
      'Use the path and query of `uploadUrl`. The request needs no token. `uploadUrl` can also lead to an S3 service. Until the ' +
      'address expires, the request can be repeated: the same bytes return 200, and other bytes return 409.',
    parameters: [
      query('project', UUID_TEXT),
      query('type', ANY_TEXT),
      query('bytes', INTEGER, 'The exact size of the file. An address has either `bytes` or `limit`.'),
      query('limit', INTEGER, 'The maximum size of the file.'),
      query('expires', INTEGER),
      query('token', ANY_TEXT),
      query('signature', ANY_TEXT),
      header('Content-Type', 'The `mimeType` in the request for the upload.'),
    ],
    body: BYTES,
    bodyMode: 'unread',
    bodyType: '*/*',
    responses: {
      200: answer('The file is stored.', UploadStored),
      400: 'The file has fewer bytes than announced, or is incomplete (`Content-Range`).',
      403: 'The address is not valid or has expired, or its project is suspended.',
      409: 'The upload already has other bytes.',
      413: 'The file has more bytes than the address allows.',
      415: 'The media type differs from the request for the upload, or the request has a content coding.',
      503: NO_ANSWER,
    },
  },
  getUpload: {
    route: 'GET /v1/uploads/{id}',
    access: 'read',
    summary: 'Returns a file of the project.',
    responses: {
      200: answer('The file, as a download with its original name.', BYTES, {
        type: '*/*',
        headers: textHeader('Content-Disposition', 'The original name of the file.'),
      }),
      404: NOT_IN_PROJECT,
    },
  },
} as const satisfies GameOperations;
