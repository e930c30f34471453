/** OpenAPI operations of uploads. */
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
} from '@questlog/runtime/http/openapi/openapiParts';

const BYTES = { '*/*': { schema: { type: 'string', format: 'binary' } } };

export function uploadPaths(): Record<string, object> {
  return {
    '/v1/ingest/uploads': { post: makeOperation() },
    '/v1/uploads/{id}': { put: putOperation(), get: readOperation() },
  };
}

function makeOperation(): object {
  const texts = {
    operationId: 'createUpload',
    summary: 'Creates an upload, and returns the address for its file.',
    description:
      'Requires the scope `reports:write`. `PUT` the bytes to `uploadUrl` with `requiredHeaders`, then name the `uploadId` in a bug ' +
      'report. Maximum sizes: screenshot 10 MiB, log_bundle and other 50 MiB, save_state 100 MiB, video 500 MiB. ' +
      'A file that no report names within 24 hours is removed.',
    parameters: [PREFER],
  };
  return write(texts, 'UploadInput', {
    201: {
      ...answer('The upload and its address.', 'Upload'),
      headers: {
        Location: { schema: { type: 'string' }, description: 'The address from which the file can be read.' },
      },
    },
    400: problem('The body is not valid. The problem lists every invalid field.'),
    404: problem('The session was erased.'),
    413: problem('The body is too large, or `sizeBytes` exceeds the limit for the `attachmentType`.'),
    415: problem(
      'The media type of the body is not supported, or the `attachmentType` does not allow the `mimeType`.',
    ),
    501: problem('Uploads are not configured in this deployment.'),
  });
}

function putOperation(): object {
  return {
    operationId: 'putUpload',
    summary: 'Stores the bytes of an upload. Either all bytes are stored or none.',
    description:
      'Use the path and query of `uploadUrl`. The request needs no token. `uploadUrl` can also lead to an S3 service. Until the ' +
      'address expires, the request can be repeated: the same bytes return 200, and other bytes return 409.',
    security: [],
    parameters: [
      id,
      query('project', { type: 'string', format: 'uuid' }),
      query('type', { type: 'string' }),
      {
        ...query('bytes', { type: 'integer' }),
        description: 'The exact size of the file. An address has either `bytes` or `limit`.',
      },
      { ...query('limit', { type: 'integer' }), description: 'The maximum size of the file.' },
      query('expires', { type: 'integer' }),
      query('token', { type: 'string' }),
      query('signature', { type: 'string' }),
      header('Content-Type', 'The `mimeType` in the request for the upload.'),
    ],
    requestBody: { required: true, content: BYTES },
    responses: {
      200: answer('The file is stored.', 'UploadStored'),
      400: problem('The file has fewer bytes than announced, or is incomplete (`Content-Range`).'),
      403: problem('The address is not valid or has expired, or its project is suspended.'),
      409: problem('The upload already has other bytes.'),
      413: problem('The file has more bytes than the address allows.'),
      415: problem(
        'The media type differs from the request for the upload, or the request has a content coding.',
      ),
      ...BODY_TIMEOUT,
      417: COMMON_RESPONSES[417],
      503: COMMON_RESPONSES[503],
    },
  };
}

function readOperation(): object {
  const file = { description: 'The file, as a download with its original name.', content: BYTES };
  return read('getUpload', 'Returns a file of the project.', file, {
    parameters: [id],
    rejections: NOT_THERE,
  });
}
