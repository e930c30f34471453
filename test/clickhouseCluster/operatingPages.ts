/** Reads the pages of `docs/operating`, whose statements the tests of a cluster run. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { S3Bucket } from '@questlog/runtime/log/kafka/testing/engines';

const OPERATING = fileURLToPath(new URL('../../docs/operating', import.meta.url));

/** Returns the storage policy of the page, with a path of the node in the bucket. */
export function storageOf(node: number, bucket: S3Bucket | undefined): string {
  if (bucket === undefined) return '';
  const [, xml = ''] = /```xml\n([^`]*)```/.exec(pageOf('retention.md')) ?? [];
  return xml
    .replace(/<endpoint>.*<\/endpoint>/, `<endpoint>${bucket.endpoint}/${bucket.bucket}/${node}/</endpoint>`)
    .replace(/(<access_key_id>).*(<)/, `$1${bucket.accessKeyId}$2`)
    .replace(/(<secret_access_key>).*(<)/, `$1${bucket.secretAccessKey}$2`);
}

export function pageOf(page: string): string {
  return readFileSync(join(OPERATING, page), 'utf8');
}
