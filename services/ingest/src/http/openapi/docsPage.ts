/** Serves GET /docs: the OpenAPI document in Swagger UI. */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import type { RouterInstance } from '@koa/router';
import { Rejected } from '@questlog/runtime/http/rejected';
import { fileServer } from '@questlog/runtime/process/listener/fileServer';
import type { Middleware } from 'koa';

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

/** Content security policy of the API's documentation page. The page loads nothing from other servers. */
const POLICY = [
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'",
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
].join('; ');

export function docsRoutes(router: RouterInstance): void {
  const send = fileServer(POLICY);
  router.get('/docs', (ctx) => send(ctx, '', { type: 'html', load: async () => PAGE }));
  router.get('/docs/:file', async (ctx) => {
    const name = ctx.params['file'] ?? '';
    const file = Object.hasOwn(FILES, name) ? FILES[name] : undefined;
    if (file === undefined) throw new Rejected('not_found', `there is nothing at ${ctx.path}`);
    await send(ctx, name, { type: file.type, load: () => readFile(file.path()) });
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
