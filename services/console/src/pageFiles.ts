/** Serves the page of the console, its modules, and its libraries with a strict Content-Security-Policy. */
import { hash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { RouterInstance } from '@koa/router';
import { Rejected } from '@questlog/runtime/http/rejected';
import { fileServer } from '@questlog/runtime/process/listener/fileServer';
import { readQuestions } from './questions.ts';

const UI = new URL('../ui/', import.meta.url);
const MODULES = ['preact', 'preact/hooks', 'htm', 'htm/preact', 'uplot'];
/** Files of libraries, by their name under `/ui/lib/`. */
const LIBRARIES: Readonly<Record<string, string>> = {
  ...Object.fromEntries(MODULES.map((name) => [`lib/${name}.js`, name])),
  'lib/uplot.js': 'uplot/dist/uPlot.iife.min.js',
  'lib/uplot.css': 'uplot/dist/uPlot.min.css',
};
const TYPES: Readonly<Record<string, string>> = { '.ts': 'js', '.js': 'js', '.css': 'css', '.svg': 'svg' };

const IMPORT_MAP = JSON.stringify({
  imports: Object.fromEntries(MODULES.map((name) => [name, `/ui/lib/${name}.js`])),
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
const POLICY =
  `default-src 'none'; script-src 'self' 'sha256-${hash('sha256', IMPORT_MAP, 'base64')}'; style-src 'self'; img-src 'self'; ` +
  "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/** Serves `GET /` and the files under `/ui/` without a token, because the files contain no data. */
export function pageFiles(router: RouterInstance): void {
  const files = new Set(readdirSync(UI, { recursive: true, encoding: 'utf8' }));
  const send = fileServer(POLICY);
  router.get('/', (ctx) => send(ctx, '', { type: 'html', load: async () => PAGE }));
  router.get('/ui/questions.json', (ctx) =>
    send(ctx, 'questions', { type: 'json', load: async () => JSON.stringify(readQuestions()) }),
  );
  router.get('/ui/*file', async (ctx) => {
    const name = ctx.params['file'] ?? '';
    const library = Object.hasOwn(LIBRARIES, name) ? LIBRARIES[name] : undefined;
    const url = files.has(name) ? new URL(name, UI) : library && import.meta.resolve(library);
    const type = TYPES[extname(name)];
    if (!url || type === undefined) {
      throw new Rejected('not_found', `the console has no file ${ctx.path}`);
    }
    await send(ctx, name, { type, load: () => textOf(fileURLToPath(url)) });
  });
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
