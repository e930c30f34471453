/** Builds the S3 server with Go. Returns the arguments and environment variables that start the server. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { withLock } from '../lock.ts';
import { clusterFolder, S3_ACCESS_KEY_ID, S3_BUCKET, type S3Node } from '../stackState.ts';

const VERSION = 'v1.8.0';
const PACKAGE = `github.com/versity/versitygw/cmd/versitygw@${VERSION}`;
/** Disables compiler optimizations, because a third of the build time of the S3 server would go into optimizations. */
const QUICK_BUILD = ['-gcflags=all=-N -l', '-ldflags=-s -w'];

/** Returns the path of the S3 server's executable. Builds the executable if it is missing. */
export async function provideS3Server(jarsFolder: string): Promise<string> {
  const folder = join(dirname(jarsFolder), `versitygw-${VERSION}`);
  const program = join(folder, 'versitygw');
  if (existsSync(program)) return program;
  await withLock(folder, async () => {
    if (!existsSync(program)) build(folder);
  });
  return program;
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

function build(folder: string): void {
  if (spawnSync('go', ['version']).error !== undefined) {
    throw new Error('Go is needed to build the S3 server, but go is not on the PATH');
  }
  process.stderr.write('stack: building the S3 server with Go, once\n');
  const unfinished = `${folder}.unfinished`;
  rmSync(unfinished, { recursive: true, force: true });
  const { status, stderr } = spawnSync('go', ['install', ...QUICK_BUILD, PACKAGE], {
    encoding: 'utf8',
    env: { ...process.env, GOBIN: unfinished },
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status !== 0) throw new Error(`Go could not build the S3 server: ${stderr.trim().split('\n').at(-1)}`);
  rmSync(folder, { recursive: true, force: true });
  renameSync(unfinished, folder);
}
