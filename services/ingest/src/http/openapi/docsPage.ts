/** Serves GET /docs: the OpenAPI document in Swagger UI. The first request for a Swagger UI file reads the file from disk. */
import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { RouterContext, RouterInstance } from '@koa/router';
import type { Middleware } from 'koa';
import { Rejected } from '../../rejected.ts';

const require = createRequire(import.meta.url);

const FILES: Readonly<Record<string, { readonly type: string; readonly path: () => string }>> = {
  'swagger-ui.css': { type: 'css', path: () => require.resolve('swagger-ui-dist/swagger-ui.css') },
  'swagger-ui-bundle.js': { type: 'js', path: () => require.resolve('swagger-ui-dist/swagger-ui-bundle.js') },
  'docsUi.js': { type: 'js', path: () => fileURLToPath(new URL('docsUi.js', import.meta.url)) },
};

const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Questlog: the API for games</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/swagger-ui.css">
<main id="docs"></main>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/docsUi.js"></script>
`;

/** Content security policy of the documentation page, which loads nothing from other servers. */
const POLICY = [
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'",
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
].join('; ');

interface Asset {
  readonly etag: string;
  readonly bytes: Buffer;
  readonly zipped: Buffer;
}

export function docsRoutes(router: RouterInstance): void {
  const loaded = new Map<string, Promise<Asset>>();
  router.get('/docs', (ctx) => {
    ctx.set({ 'Content-Security-Policy': POLICY, 'X-Content-Type-Options': 'nosniff' });
    ctx.type = 'html';
    ctx.body = PAGE;
  });
  router.get('/docs/:file', async (ctx) => {
    const name = ctx.params['file'] ?? '';
    const file = Object.hasOwn(FILES, name) ? FILES[name] : undefined;
    if (file === undefined) throw new Rejected('not_found', `there is nothing at ${ctx.path}`);
    const asset = loaded.get(name) ?? load(file.path());
    loaded.set(name, asset);
    // If a file of Swagger UI cannot be read, the next request reads the file again.
    asset.catch(() => loaded.delete(name));
    answer(ctx, file.type, await asset);
  });
}

/** Redirects browsers from / to /docs. Other clients get a 404 with an explanation. */
export const rootToDocs: Middleware = (ctx, next) => {
  if (ctx.path !== '/') return next();
  if (ctx.method !== 'GET' || !ctx.get('Accept').includes('text/html')) {
    throw new Rejected('not_found', '/ is not an endpoint. Open /docs in a browser to see the API');
  }
  ctx.redirect('/docs');
};

async function load(path: string): Promise<Asset> {
  const bytes = await readFile(path);
  return { bytes, zipped: await promisify(gzip)(bytes), etag: hash('sha256', bytes) };
}

function answer(ctx: RouterContext, type: string, { etag, bytes, zipped }: Asset): void {
  const isZipped = ctx.acceptsEncodings('gzip', 'identity') === 'gzip';
  ctx.set({ 'Cache-Control': 'no-cache', 'X-Content-Type-Options': 'nosniff' });
  ctx.vary('Accept-Encoding');
  ctx.type = type;
  ctx.etag = isZipped ? `${etag}-gzip` : etag;
  ctx.status = 200;
  if (ctx.fresh) ctx.status = 304;
  else ctx.body = isZipped ? zipped : bytes;
  if (isZipped) ctx.set('Content-Encoding', 'gzip');
}
