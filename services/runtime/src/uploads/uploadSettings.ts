/** Settings of the store of uploaded files. */
import { type SettingsOf, setting } from '../process/config.ts';
import { StartRefused } from '../process/errors.ts';
import type { S3StoreOptions } from './s3Store.ts';

export const uploadSettings = {
  uploads: setting.choice(['auto', 'folder', 's3', 'off'], {
    env: 'QUESTLOG_UPLOADS',
    default: 'auto',
    description:
      'Store of uploaded files: `folder` (in the data folder, only for `standalone`), `s3`, or `off`. `auto`: `s3` with a bucket, otherwise `folder` with the embedded log, and `off` with Kafka.',
  }),
  uploadSigningKey: setting.secret({
    env: 'QUESTLOG_UPLOAD_SIGNING_KEY',
    description:
      'Key that signs the addresses of uploads to the folder, at least 32 characters. If empty, Questlog generates a key and stores it in the folder.',
  }),
  s3Bucket: setting.optional({
    env: 'QUESTLOG_S3_BUCKET',
    description: 'Bucket of uploaded files. The bucket must exist and allow get, put, delete, and list.',
  }),
  s3Endpoint: setting.optional({
    env: 'QUESTLOG_S3_ENDPOINT',
    description:
      'Address of an S3-compatible service, used with path-style requests (`https://host/bucket`), or empty for AWS.',
  }),
  s3PublicEndpoint: setting.optional({
    env: 'QUESTLOG_S3_PUBLIC_ENDPOINT',
    description: 'Address of the S3 service for games, if it differs from `QUESTLOG_S3_ENDPOINT`.',
  }),
  s3Region: setting.text({
    env: 'QUESTLOG_S3_REGION',
    default: 'us-east-1',
    description: 'Region of the bucket.',
  }),
  s3AccessKeyId: setting.optional({
    env: 'QUESTLOG_S3_ACCESS_KEY_ID',
    description:
      'Access key id. If empty, Questlog uses the credentials that the AWS SDK finds on the machine.',
  }),
  s3SecretAccessKey: setting.secret({
    env: 'QUESTLOG_S3_SECRET_ACCESS_KEY',
    description: 'Secret of the access key.',
  }),
} as const;

type Settings = SettingsOf<typeof uploadSettings>;

export type UploadOptions =
  | { readonly kind: 'folder'; readonly signingKey: string }
  | { readonly kind: 's3'; readonly options: S3StoreOptions };

const MIN_SIGNING_KEY = 32;

/** Returns undefined if files are not stored. @throws StartRefused if a setting is invalid */
export function uploadOptions(
  settings: Settings,
  { isEmbedded, isStandalone }: { isEmbedded: boolean; isStandalone: boolean },
): UploadOptions | undefined {
  const { uploads, uploadSigningKey: signingKey } = settings;
  if (uploads === 's3' || (uploads === 'auto' && settings.s3Bucket !== '')) {
    return { kind: 's3', options: checkedS3(settings) };
  }
  if (signingKey !== '' && signingKey.length < MIN_SIGNING_KEY) {
    throw new StartRefused(`QUESTLOG_UPLOAD_SIGNING_KEY: must have at least ${MIN_SIGNING_KEY} characters`);
  }
  const isFolder = uploads === 'folder' || (uploads === 'auto' && isEmbedded);
  if (isFolder && !isStandalone) {
    // A folder works only if all services run in one process, because `operations` must delete the files that `ingest` stores.
    throw new StartRefused(
      'QUESTLOG_UPLOADS: must not be folder here; only `questlog standalone` can use a folder. Use s3',
    );
  }
  return isFolder ? { kind: 'folder', signingKey } : undefined;
}

/** Returns the connection to another bucket, with the credentials of the settings. */
export function bucketOptions(settings: Settings, bucket: string): S3StoreOptions {
  const { s3Region: region, s3Endpoint: endpoint, s3PublicEndpoint: publicEndpoint } = settings;
  const { s3AccessKeyId: accessKeyId, s3SecretAccessKey: secretAccessKey } = settings;
  return { bucket, region, endpoint, publicEndpoint, accessKeyId, secretAccessKey };
}

function checkedS3(settings: Settings): S3StoreOptions {
  const options = bucketOptions(settings, settings.s3Bucket);
  const { endpoint, publicEndpoint, accessKeyId, secretAccessKey } = options;
  if (options.bucket === '') throw new StartRefused('QUESTLOG_S3_BUCKET: required for uploads to S3');
  if ((accessKeyId === '') !== (secretAccessKey === '')) {
    throw new StartRefused(
      'QUESTLOG_S3_ACCESS_KEY_ID: set it together with QUESTLOG_S3_SECRET_ACCESS_KEY, or set neither',
    );
  }
  for (const [name, address] of Object.entries({ ENDPOINT: endpoint, PUBLIC_ENDPOINT: publicEndpoint })) {
    if (address === '' || /^https?:$/.test(URL.parse(address)?.protocol ?? '')) continue;
    throw new StartRefused(`QUESTLOG_S3_${name}: must be an http or https address`);
  }
  return options;
}
