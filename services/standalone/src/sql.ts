/** `npm run sql -- "SELECT …"`: asks the running Questlog through its admin listener; prints ClickHouse's own table, or another format. */
import { parseArgs } from 'node:util';
import { loadConfig } from '@questlog/runtime/process/config';
import { messageOf } from '@questlog/runtime/process/errors';
import { isOnKafka, settings } from './config.ts';
import { credentialsPath, readCredentials } from './credentials.ts';

const TABLE = 'PrettyCompactMonoBlock';
/** The question names a format itself. A text that only ends like that is answered in JSON. */
const NAMES_FORMAT = /\bFORMAT\s+\w+(\s+SETTINGS\b.*)?$/is;

try {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { format: { type: 'string' } },
  });
  const query = positionals.join(' ').replace(/[;\s]+$/, '');
  if (query === '') {
    throw new Error('usage: npm run sql -- [--format CSVWithNames] "SELECT count() FROM events"');
  }
  const format = values.format ?? (NAMES_FORMAT.test(query) ? undefined : TABLE);
  const answer = await ask(format === undefined ? query : `${query}\nFORMAT ${format}`);
  process.stdout.write(answer.length === 0 && format === TABLE ? 'no rows\n' : answer);
} catch (error) {
  process.stderr.write(`${messageOf(error)}\n`);
  process.exitCode = 1;
}

async function ask(query: string): Promise<Buffer> {
  const config = loadConfig(settings, process.env, 'QUESTLOG_');
  const { dataDir } = config;
  const credentials = readCredentials(credentialsPath(dataDir, isOnKafka(config)));
  if (credentials === undefined)
    throw new Error(`nothing has been started on ${dataDir} yet; run npm start first`);
  const { adminUrl, adminToken } = credentials;
  const response = await fetch(`${adminUrl}/admin/sql`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${adminToken}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ query }),
  }).catch((cause: unknown) => {
    throw new Error(`Questlog does not answer at ${adminUrl}; is it running?`, { cause });
  });
  const body = Buffer.from(await response.arrayBuffer());
  if (response.ok) return body;
  const problem: { detail?: string } = JSON.parse(body.toString());
  throw new Error(problem.detail ?? `answered ${response.status}`);
}
