/** Serves the page of the console, its modules, and its libraries with a strict Content-Security-Policy. */
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { RouterContext, RouterInstance } from '@koa/router';
import { answerProblem } from './answerProblem.ts';

const LIBRARIES: Readonly<Record<string, string>> = {
  preact: 'preact',
  'preact/hooks': 'preact/hooks',
  htm: 'htm',
  'htm/preact': 'htm/preact',
  uplot: 'uplot/dist/uPlot.iife.min.js',
};
const UI = new URL('../ui/', import.meta.url);
const TYPES: Readonly<Record<string, string>> = {
  '.ts': 'text/javascript; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

const IMPORT_MAP = JSON.stringify({
  imports: Object.fromEntries(Object.keys(LIBRARIES).map((name) => [name, `/ui/lib/${name}.js`])),
});
const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Questlog</title>
<link rel="icon" href="/ui/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/ui/lib/uplot.css">
<link rel="stylesheet" href="/ui/console.css">
<script type="importmap">${IMPORT_MAP}</script>
<script type="module" src="/ui/main.ts"></script>
</head>
<body><div id="console"></div><noscript>The console needs JavaScript.</noscript></body>
</html>
`;
const MAP_HASH = createHash('sha256').update(IMPORT_MAP).digest('base64');
const HEADERS = {
  'Content-Security-Policy':
    `default-src 'none'; script-src 'self' 'sha256-${MAP_HASH}'; style-src 'self'; img-src 'self'; connect-src 'self'; ` +
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-cache',
};

/** Serves `GET /` and the files under `/ui/` without a token, because the files contain no data. */
export function pageFiles(router: RouterInstance): void {
  const files = new Set(readdirSync(UI, { recursive: true, encoding: 'utf8' }));
  const cache = new Map<string, Promise<{ readonly text: string; readonly tag: string }>>();
  const send = async (ctx: RouterContext, key: string, type: string, load: () => Promise<string>) => {
    const loaded = cache.get(key) ?? load().then((text) => ({ text, tag: etagOf(text) }));
    cache.set(key, loaded);
    loaded.catch(() => cache.delete(key));
    const { text, tag } = await loaded;
    ctx.set({ ...HEADERS, ETag: tag });
    ctx.status = 200;
    ctx.type = type;
    if (ctx.fresh) ctx.status = 304;
    else ctx.body = text;
  };
  router.get('/', (ctx) => send(ctx, '/', 'text/html; charset=utf-8', async () => PAGE));
  router.get('/ui/*file', async (ctx) => {
    const file = ctx.params['file'] ?? '';
    const path = files.has(file) ? fileURLToPath(new URL(file, UI)) : libraryOf(file);
    const type = TYPES[extname(file)];
    if (path === undefined || type === undefined) {
      return answerProblem(ctx, 'not_found', `the console has no file ${ctx.path}`);
    }
    await send(ctx, file, type, () => textOf(path));
  });
}

function libraryOf(file: string): string | undefined {
  if (file === 'lib/uplot.css') return libraryPath('uplot/dist/uPlot.min.css');
  const name = /^lib\/(.+)\.js$/.exec(file)?.[1] ?? '';
  const library = Object.hasOwn(LIBRARIES, name) ? LIBRARIES[name] : undefined;
  return library === undefined ? undefined : libraryPath(library);
}

function libraryPath(file: string): string {
  return fileURLToPath(import.meta.resolve(file));
}

async function textOf(path: string): Promise<string> {
  const text = await readFile(path, 'utf8');
  if (path.endsWith('.ts')) return stripTypes(text);
  // Adds an `export` to the minified script of uPlot. The result has a third of the size of uPlot's own module.
  return path.endsWith('.iife.min.js') ? `${text}\nexport default uPlot;\n` : text;
}

/** Removes the TypeScript types from a module. Suppresses Node's warning that `stripTypeScriptTypes` is experimental. */
function stripTypes(code: string): string {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return stripTypeScriptTypes(code);
  } finally {
    process.emitWarning = emitWarning;
  }
}

function etagOf(text: string): string {
  return `"${createHash('sha256').update(text).digest('base64url').slice(0, 20)}"`;
}
