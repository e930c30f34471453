/** Makes a bucket for tests. */
import { randomUUID } from 'node:crypto';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import type { S3StoreOptions } from './s3Store.ts';

type Server = Pick<S3StoreOptions, 'endpoint' | 'accessKeyId' | 'secretAccessKey'>;

/** One that nobody else uses: an ingest removes the files of its bucket that none of its own reports names. */
export async function aBucket(server: Server): Promise<S3StoreOptions> {
  const options = { ...server, region: 'us-east-1', publicEndpoint: '', bucket: `uploads-${randomUUID()}` };
  const { endpoint, region, accessKeyId, secretAccessKey, bucket } = options;
  const credentials = { accessKeyId, secretAccessKey };
  const client = new S3Client({ endpoint, region, forcePathStyle: true, credentials });
  await client.send(new CreateBucketCommand({ Bucket: bucket }));
  client.destroy();
  return options;
}
