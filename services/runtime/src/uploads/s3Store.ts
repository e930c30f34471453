/** Stores uploaded files in an S3 bucket. Clients send the files directly to S3. */
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { Readable } from 'node:stream';
import {
  DeleteObjectsCommand,
  GetBucketCorsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutBucketCorsCommand,
  PutObjectCommand,
  paginateListObjectsV2,
  S3Client,
} from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { UPLOAD_ADDRESS_LIFETIME_MS } from '@questlog/schemas/http/upload';
import { canonicalUuid, isUuidV7 } from '@questlog/schemas/uuid';
import { Rejected } from '../http/rejected.ts';
import { messageOf, Unavailable } from '../process/errors.ts';
import type { Logger } from '../process/logger.ts';
import { parseDescription, storageKey, type UploadKey } from './core/uploadKey.ts';
import type { UploadStore } from './uploadStore.ts';

/** Timeouts of requests to S3. After a timeout, the client gets the HTTP status 503. */
const CONNECT_TIMEOUT_MS = 3_000;
const IDLE_TIMEOUT_MS = 10_000;
/** Maximum connections to S3. Downloads can use only half of the connections, because a download can take a long time. */
const MAX_CONNECTIONS = 128;
const DESCRIPTION = '.json';
/** Headers that are part of the signature of an upload address. S3 enforces only signed headers. */
const SIGNED_HEADERS = new Set(['content-length', 'content-type', 'host']);
const CORS_MAX_AGE_S = 3600;

export interface S3StoreOptions {
  /** URL of the S3 service. Empty for AWS. */
  readonly endpoint: string;
  /** URL under which games reach the S3 service. If this URL is empty, games use `endpoint`. */
  readonly publicEndpoint: string;
  readonly bucket: string;
  readonly region: string;
  /** Id of the access key. If the id and the secret are empty, the AWS SDK looks for credentials on the machine. */
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

/** @param origins origins (`https://host`) of web pages that can upload files. `*` allows all origins. */
export function openS3Store(
  options: S3StoreOptions,
  origins: readonly string[],
  logger: Logger,
): UploadStore {
  const Bucket = options.bucket;
  const agents = connectionsTo();
  const s3 = clientOf(options, options.endpoint, agents);
  const toGames = clientOf(options, options.publicEndpoint || options.endpoint);
  // Does not wait until the bucket's CORS rules are set, because events can be stored without S3.
  if (origins.length > 0) void allowBrowsers(s3, Bucket, { origins, logger });
  return {
    isSizeNeeded: true,
    receiver: undefined,
    connections: { resource: 's3_connections', limit: MAX_CONNECTIONS, used: () => usedBy(agents) },
    describe: async (key, description) => {
      const Body = JSON.stringify(description);
      const object = { Bucket, Key: storageKey(key) + DESCRIPTION, Body, ContentType: 'application/json' };
      await withServiceErrors(s3.send(new PutObjectCommand(object)));
    },
    address: ({ key, mimeType, maxBytes }) => {
      const object = { Bucket, Key: storageKey(key), ContentType: mimeType, ContentLength: maxBytes };
      const expiresIn = UPLOAD_ADDRESS_LIFETIME_MS / 1000;
      const signing = { expiresIn, signableHeaders: SIGNED_HEADERS };
      return withServiceErrors(getSignedUrl(toGames, new PutObjectCommand(object), signing));
    },
    find: async (key) => {
      const Key = storageKey(key);
      const [described, bytes] = await Promise.all([
        undefinedIfMissing(s3.send(new GetObjectCommand({ Bucket, Key: Key + DESCRIPTION }))),
        undefinedIfMissing(s3.send(new HeadObjectCommand({ Bucket, Key }))),
      ]);
      const text = await described?.Body?.transformToString();
      if (text === undefined) return undefined;
      const description = parseDescription(text);
      // Treats a file with a wrong size as missing. The S3 server versitygw 1.8.0 stores a part of an interrupted upload.
      const isWhole = bytes?.ContentLength === description.sizeBytes;
      return { description, sizeBytes: isWhole ? bytes?.ContentLength : undefined };
    },
    read: async (key) => {
      const object = await undefinedIfMissing(
        s3.send(new GetObjectCommand({ Bucket, Key: storageKey(key) })),
      );
      if (object?.Body instanceof Readable) return object.Body;
      throw new Rejected('not_found', 'the upload was removed just now');
    },
    list: (day) => uploadsOf(s3, Bucket, day),
    remove: async (key) => {
      const Objects = [{ Key: storageKey(key) }, { Key: storageKey(key) + DESCRIPTION }];
      await withServiceErrors(
        s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects, Quiet: true } })),
      );
    },
  };
}

function connectionsTo() {
  const options = { keepAlive: true, maxSockets: MAX_CONNECTIONS };
  return { httpAgent: new HttpAgent(options), httpsAgent: new HttpsAgent(options) };
}

/** Returns the number of requests that use a connection or wait for a connection. */
function usedBy(agents: ReturnType<typeof connectionsTo>): number {
  const lists = Object.values(agents).flatMap(({ sockets, requests }) => [sockets, requests]);
  return lists.flatMap((byHost) => Object.values(byHost)).reduce((sum, list) => sum + (list?.length ?? 0), 0);
}

export function clientOf(
  { region, accessKeyId, secretAccessKey }: S3StoreOptions,
  endpoint: string,
  agents = connectionsTo(),
): S3Client {
  return new S3Client({
    region,
    ...(endpoint !== '' && { endpoint, forcePathStyle: true }),
    ...(accessKeyId !== '' && { credentials: { accessKeyId, secretAccessKey } }),
    // A presigned URL must not contain a checksum, because the file is still unknown.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      ...{ connectionTimeout: CONNECT_TIMEOUT_MS, socketTimeout: IDLE_TIMEOUT_MS },
      ...agents,
    },
  });
}

/** Sets the CORS rules of the bucket, so that browsers can upload files. Does nothing if the bucket already has CORS rules. */
async function allowBrowsers(
  s3: S3Client,
  Bucket: string,
  { origins, logger }: { origins: readonly string[]; logger: Logger },
): Promise<void> {
  try {
    const existing = await s3.send(new GetBucketCorsCommand({ Bucket })).catch(() => undefined);
    if ((existing?.CORSRules ?? []).length > 0) return;
    const rule = { AllowedMethods: ['PUT'], AllowedOrigins: [...origins], AllowedHeaders: ['content-type'] };
    const CORSConfiguration = { CORSRules: [{ ...rule, MaxAgeSeconds: CORS_MAX_AGE_S }] };
    await s3.send(new PutBucketCorsCommand({ Bucket, CORSConfiguration }));
  } catch (error) {
    logger.warn('bucket_cors_not_set', { bucket: Bucket, cause: messageOf(error) });
  }
}

async function* uploadsOf(client: S3Client, Bucket: string, day: string): AsyncGenerator<UploadKey> {
  const pages = paginateListObjectsV2({ client }, { Bucket, Prefix: `${day}/` });
  let last = '';
  for (;;) {
    const { value: page, done } = await withServiceErrors(pages.next());
    if (done === true) return;
    for (const { Key = '' } of page.Contents ?? []) {
      const [, projectId = '', name = ''] = Key.split('/');
      const uploadId = canonicalUuid(name.replace(DESCRIPTION, '')) ?? '';
      // A file can have two keys, one for the content and one for the description. Skips the second key.
      if (isUuidV7(uploadId) && uploadId !== last) yield { projectId, uploadId };
      last = uploadId;
    }
  }
}

async function undefinedIfMissing<T>(request: Promise<T>): Promise<T | undefined> {
  return await withServiceErrors(
    request.catch((error: unknown) => {
      if (isMissing(error)) return undefined;
      throw error;
    }),
  );
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && ['NoSuchKey', 'NotFound'].includes(error.name);
}

/** Converts every S3 error to Unavailable, because a client cannot fix an S3 error. */
async function withServiceErrors<T>(request: Promise<T>): Promise<T> {
  try {
    return await request;
  } catch (cause) {
    throw new Unavailable('the upload store does not answer or rejected the request', { cause });
  }
}
