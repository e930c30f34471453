/** Sends the files of a page with an ETag, compressed if the browser allows it. The first request for a file loads the file. */
import { hash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Context } from 'koa';

export interface PageFile {
  /** Media type, or an extension such as `css`. */
  readonly type: string;
  readonly load: () => Promise<string | Buffer>;
}

interface LoadedFile {
  readonly etag: string;
  readonly bytes: Buffer;
  readonly zipped: Buffer;
}

export type SendFile = (
  ctx: Pick<Context, 'acceptsEncodings' | 'set' | 'vary' | 'type' | 'etag' | 'status' | 'fresh' | 'body'>,
  name: string,
  file: PageFile,
) => Promise<void>;

/** @param policy - the `Content-Security-Policy` of the page */
export function fileServer(policy: string): SendFile {
  const loaded = new Map<string, Promise<LoadedFile>>();
  return async (ctx, name, file) => {
    const loading = loaded.get(name) ?? loadFile(file);
    loaded.set(name, loading);
    // If a file cannot be loaded, the next request loads the file again.
    loading.catch(() => loaded.delete(name));
    const { etag, bytes, zipped } = await loading;
    const isZipped = ctx.acceptsEncodings('gzip', 'identity') === 'gzip';
    ctx.set({
      'Cache-Control': 'no-cache',
      'Content-Security-Policy': policy,
      'Cross-Origin-Opener-Policy': 'same-origin',
      'Cross-Origin-Resource-Policy': 'same-origin',
      'Referrer-Policy': 'no-referrer',
      'X-Content-Type-Options': 'nosniff',
    });
    ctx.vary('Accept-Encoding');
    ctx.type = file.type;
    ctx.etag = isZipped ? `${etag}-gzip` : etag;
    ctx.status = 200;
    if (ctx.fresh) ctx.status = 304;
    else ctx.body = isZipped ? zipped : bytes;
    if (isZipped) ctx.set('Content-Encoding', 'gzip');
  };
}

async function loadFile({ load }: PageFile): Promise<LoadedFile> {
  const bytes = Buffer.from(await load());
  return { bytes, zipped: await promisify(gzip)(bytes), etag: hash('sha256', bytes) };
}
