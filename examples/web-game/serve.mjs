/** Serves the game to browsers on this machine. Builds `@questlog/client` from its source. */
import { existsSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const path = (name) => fileURLToPath(new URL(name, import.meta.url));
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.json': 'application/json' };

const settingsJson = JSON.stringify(settings());
const files = {
  '/index.html': () => readFile(path('index.html')),
  '/game.js': () => readFile(path('game.js')),
  '/settings.json': async () => settingsJson,
};
for (const name of ['client', 'automatic', 'indexedDb']) {
  const built = await rolldown({ input: path(`../../services/client/src/${name}.ts`), platform: 'neutral' });
  const { output } = await built.generate({ format: 'esm', minify: true });
  files[`/client/${name}.js`] = async () => output[0].code;
}

const server = createServer(async (request, response) => {
  const name = request.url === '/' ? '/index.html' : request.url;
  const load = Object.hasOwn(files, name) ? files[name] : undefined;
  response.statusCode = load === undefined ? 404 : 200;
  response.setHeader('Content-Type', TYPES[extname(name)] ?? 'text/plain');
  response.end(await load?.());
});
server.listen(Number(process.argv[2] ?? 8090), '127.0.0.1', () => {
  console.log(`The game is at http://127.0.0.1:${server.address().port}/`);
});

/** Returns the addresses and the token from the environment, or from the credentials that `npm start` wrote. */
function settings() {
  const { QUESTLOG_URL, QUESTLOG_TOKEN, QUESTLOG_ADMIN_URL } = process.env;
  if (QUESTLOG_URL) return { url: QUESTLOG_URL, token: QUESTLOG_TOKEN, adminUrl: QUESTLOG_ADMIN_URL };
  const credentials = path('../../.data/dev-credentials.json');
  if (!existsSync(credentials)) {
    console.error('No Questlog found. Run npm start, or set QUESTLOG_URL.');
    process.exit(1);
  }
  const { baseUrl, token, adminUrl } = JSON.parse(readFileSync(credentials, 'utf8'));
  return { url: baseUrl, token, adminUrl };
}
