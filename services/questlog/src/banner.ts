/** Text that a successful start prints: addresses, and commands for the demo. */
import { relative, resolve } from 'node:path';
import { defaultDataDir } from './config.ts';
import type { LocalState, Ready } from './wiring.ts';

/** Returns the text to print. Omits the secrets of operators and data teams if `isTerminal` is false, because the text can go to a log file. */
export function banner(
  ready: Ready,
  { revision, seconds, isTerminal }: { revision: string; seconds: number; isTerminal: boolean },
): string {
  const { service, baseUrl, adminUrl, local } = ready;
  const name = service === 'standalone' ? 'Questlog' : `Questlog ${service}`;
  const lines = [
    ...(baseUrl === undefined ? [] : [`games       ${baseUrl}`]),
    `operators   ${adminUrl}${service === 'standalone' && local?.hasDemo ? signIn(local, isTerminal) : ''}`,
    ...(local === undefined ? [] : [readerLine(local, isTerminal)]),
    ...(local === undefined ? [] : [`credentials ${relative(process.cwd(), local.credentialsPath)}`]),
  ];
  const of = baseUrl === undefined ? '' : `, revision ${revision}`;
  const text = lines.map((line) => `  ${line}\n`).join('');
  return `\n${name} is ready (${seconds.toFixed(1)} s${of}).\n\n${text}${local?.hasDemo ? demo(local) : ''}\n`;
}

/** Returns the address of ClickHouse with the account that only reads, if there is one. */
function readerLine({ credentials }: LocalState, isTerminal: boolean): string {
  const { url, database, reader, username } = credentials.clickhouse;
  const account = `${url}  database ${database}, user ${reader?.username ?? username}`;
  if (reader === undefined) return `ClickHouse  ${account}`;
  const password = isTerminal ? `password ${reader.password}` : 'password in the credentials';
  return `data teams  ${account}, ${password}  (docs/data-tools.md)`;
}

/** Returns the part of the sign-in address that contains the admin token. Browsers do not send the part after `#`. */
function signIn(local: LocalState, isTerminal: boolean): string {
  return isTerminal
    ? `/#token=${encodeURIComponent(local.credentials.adminToken)}`
    : `  (${dataDirPrefix(local)}npx questlog console prints a sign-in address)`;
}

function dataDirPrefix({ dataDir }: LocalState): string {
  return dataDir === resolve(defaultDataDir) ? '' : `QUESTLOG_DATA_DIR=${shellQuoted(dataDir)} `;
}

function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function demo(local: LocalState): string {
  const { credentials } = local;
  const { baseUrl, token, sessionId } = credentials;
  const event = { sessionId, eventType: 'checkpoint', payload: { level: 3 } };
  const post = (path: string, body: object): string =>
    `curl -s '${baseUrl}${path}' -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/json' -d '${JSON.stringify(body)}'`;
  const prefix = dataDirPrefix(local);
  return `
Send an event:

  ${post('/v1/ingest/events', event)}

Query ClickHouse:

  ${prefix}npm run sql -- "SELECT event_type, count() FROM events GROUP BY event_type"

File a bug report. It is linked to the events of its session:

  ${post('/v1/ingest/reports', { sessionId })}

About a second later, show the report with its events. The <id> is in the response:

  ${prefix}npx questlog trail <id>

Or simulate a game:

  ${prefix}npx questlog simulate --days 1 --speed max
`;
}
