/** The output of a ready start: where it listens, and with the demo lines to paste. */
import { relative, resolve } from 'node:path';
import { defaultDataDir } from './config.ts';
import type { Kept, Running } from './services.ts';

/** @param isTerminal that somebody reads it, and not a file of logs, which is no place for the admin token. */
export function banner(
  running: Running,
  { revision, seconds, isTerminal }: { revision: string; seconds: number; isTerminal: boolean },
): string {
  const { service, baseUrl, adminUrl, kept } = running;
  const name = service === 'standalone' ? 'Questlog' : `Questlog ${service}`;
  const clickhouse = kept?.credentials.clickhouse;
  const lines = [
    ...(baseUrl === undefined ? [] : [`games       ${baseUrl}`]),
    `operators   ${adminUrl}${isTerminal && kept?.hasDemo ? signInFragment(kept) : ''}`,
    ...(clickhouse === undefined
      ? []
      : [`ClickHouse  ${clickhouse.url}  database ${clickhouse.database}, user ${clickhouse.username}`]),
    ...(kept === undefined ? [] : [`credentials ${relative(process.cwd(), kept.credentialsPath)}`]),
  ];
  const of = baseUrl === undefined ? '' : `, revision ${revision}`;
  const said = lines.map((line) => `  ${line}\n`).join('');
  return `\n${name} is ready (${seconds.toFixed(1)} s${of}).\n\n${said}${kept?.hasDemo ? demo(kept) : ''}\n`;
}

/** The console signs in with it; a browser does not send it. */
function signInFragment({ credentials }: Kept): string {
  return `/#token=${encodeURIComponent(credentials.adminToken)}`;
}

function demo({ credentials, dataDir }: Kept): string {
  const { baseUrl, token, sessionId } = credentials;
  const event = { sessionId, eventType: 'checkpoint', payload: { level: 3 } };
  const post = (path: string, body: object): string =>
    `curl -s '${baseUrl}${path}' -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/json' -d '${JSON.stringify(body)}'`;
  // The other command looks where this one would by default.
  const elsewhere = dataDir === resolve(defaultDataDir) ? '' : `QUESTLOG_DATA_DIR='${dataDir}' `;
  return `
Send an event:

  ${post('/v1/ingest/events', event)}

Ask ClickHouse a question:

  ${elsewhere}npm run sql -- "SELECT event_type, count() FROM events GROUP BY event_type"

File a bug report; what its session did around it belongs to it:

  ${post('/v1/ingest/reports', { sessionId })}

Or have a game played into it:

  ${elsewhere}npx questlog simulate
`;
}
