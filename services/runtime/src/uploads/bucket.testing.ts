/** Test support: an S3 bucket and its objects. */
import { randomUUID } from 'node:crypto';
import { CreateBucketCommand, paginateListObjectsV2, S3Client } from '@aws-sdk/client-s3';
import type { S3StoreOptions } from './s3Store.ts';

const REGION = 'us-east-1';

type Server = Pick<S3StoreOptions, 'endpoint' | 'accessKeyId' | 'secretAccessKey'>;

/**
 * Creates a bucket for one test. Tests cannot share a bucket, because an ingest removes all files that its reports do not name.
 */
export async function aBucket(server: Server): Promise<S3StoreOptions> {
  const options = { ...server, region: REGION, publicEndpoint: '', bucket: `uploads-${randomUUID()}` };
  const client = clientOf(server);
  await client.send(new CreateBucketCommand({ Bucket: options.bucket }));
  client.destroy();
  return options;
}

export async function keysIn({ bucket, ...server }: Server & { bucket: string }): Promise<string[]> {
  const client = clientOf(server);
  const keys: string[] = [];
  for await (const { Contents = [] } of paginateListObjectsV2({ client }, { Bucket: bucket }))
    keys.push(...Contents.map(({ Key = '' }) => Key));
  client.destroy();
  return keys;
}

function clientOf({ endpoint, accessKeyId, secretAccessKey }: Server): S3Client {
  const credentials = { accessKeyId, secretAccessKey };
  return new S3Client({ endpoint, region: REGION, forcePathStyle: true, credentials });
}
