/** Builds the S3 server with Go. Returns the arguments and environment variables that start the server. */
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { clusterFolder, S3_ACCESS_KEY_ID, S3_BUCKET, type S3Node } from '../stackState.ts';
import { goProgram } from './goProgram.ts';

const VERSION = 'v1.8.0';
const PACKAGE = `github.com/versity/versitygw/cmd/versitygw@${VERSION}`;

/** Returns the path of the S3 server's executable. Builds the executable if it is missing. */
export async function provideS3Server(jarsFolder: string): Promise<string> {
  return await goProgram(join(dirname(jarsFolder), `versitygw-${VERSION}`), PACKAGE);
}

/** Stores the metadata of objects in a separate folder, because some file systems have no extended attributes. */
export function s3Arguments(folder: string, { port }: S3Node): string[] {
  const data = join(clusterFolder(folder), 's3');
  const [objects, attributes] = [join(data, 'objects'), join(data, 'attributes')];
  for (const made of [join(objects, S3_BUCKET), attributes]) mkdirSync(made, { recursive: true });
  return ['--port', `127.0.0.1:${port}`, '--quiet', 'posix', '--sidecar', attributes, objects];
}

/** Returns the access key as environment variables, because every user of the machine can read command-line arguments. */
export function s3Environment({ secret }: S3Node): Readonly<Record<string, string>> {
  return { ROOT_ACCESS_KEY: S3_ACCESS_KEY_ID, ROOT_SECRET_KEY: secret };
}
