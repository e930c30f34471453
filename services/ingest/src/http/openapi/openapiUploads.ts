/** The operations of uploads in the OpenAPI document. */
import {
  answer,
  BODY_TIMEOUT,
  COMMON_RESPONSES,
  header,
  id,
  NOT_THERE,
  PREFER,
  problem,
  query,
  read,
  write,
} from './openapiParts.ts';

const BYTES = { '*/*': { schema: { type: 'string', format: 'binary' } } };

export function uploadPaths(): Record<string, object> {
  return {
    '/v1/ingest/uploads': { post: makeOperation() },
    '/v1/uploads/{id}': { put: putOperation(), get: readOperation() },
  };
}

function makeOperation(): object {
  const texts = {
    summary: 'Makes room for a file, and answers with an address that takes it.',
    description:
      'Scope `reports:write`. `PUT` the bytes to `uploadUrl` with `requiredHeaders`, then name the `uploadId` in a bug ' +
      'report. At most: screenshot 10 MiB, log_bundle and other 50 MiB, save_state 100 MiB, video 500 MiB. ' +
      'A file that no report names within 24 h is removed.',
    parameters: [PREFER],
  };
  return write(texts, 'UploadInput', {
    201: answer('The upload and its address.', 'Upload'),
    400: problem('The body is not valid. Every bad field is named.'),
    404: problem('The session was erased.'),
    413: problem('The body is too large, or `sizeBytes` is over the limit of the kind of file.'),
    415: problem('The media type of the body, or of the file for its kind, is not one that is taken.'),
    501: problem('Uploads are not set up in this deployment.'),
  });
}

function putOperation(): object {
  return {
    summary: 'Takes the bytes of an upload: whole, or nothing of them is kept.',
    description:
      'The path and query are those of `uploadUrl`, which needs no token; it may also lead to an S3 service. Until the ' +
      'address expires it can be done again: the same bytes are a 200, others a 409.',
    security: [],
    parameters: [
      id,
      query('project', { type: 'string', format: 'uuid' }),
      query('type', { type: 'string' }),
      { ...query('bytes', { type: 'integer' }), description: 'The size that the file must have, or' },
      { ...query('limit', { type: 'integer' }), description: 'the size that it may have.' },
      query('expires', { type: 'integer' }),
      query('token', { type: 'string' }),
      query('signature', { type: 'string' }),
      header('Content-Type', 'The `mimeType` that the upload was asked for with.'),
    ],
    requestBody: { required: true, content: BYTES },
    responses: {
      200: answer('The file is stored.', 'UploadStored'),
      400: problem('Fewer bytes than were announced, or a part of a file (`Content-Range`).'),
      403: problem('The address is not valid or has expired, or its project is suspended.'),
      409: problem('The upload has other bytes already.'),
      413: problem('More bytes than the address takes.'),
      415: problem('Another media type than was asked for, or a content coding.'),
      ...BODY_TIMEOUT,
      417: COMMON_RESPONSES[417],
      503: COMMON_RESPONSES[503],
    },
  };
}

function readOperation(): object {
  const file = { description: 'The file, as a download with the name that it came with.', content: BYTES };
  return read('A file of the project.', file, { parameters: [id], rejections: NOT_THERE });
}
