/** What `npm start` says once everything is ready: where it listens, and three lines to paste. */
import { relative, resolve } from 'node:path';
import { defaultDataDir } from './config.ts';
import { credentialsPath } from './credentials.ts';
import type { Standalone } from './standalone.ts';

export function banner({ credentials, dataDir }: Standalone, revision: string, seconds: number): string {
  const { baseUrl, adminUrl, token, sessionId, clickhouse } = credentials;
  const event = { sessionId, eventType: 'checkpoint', payload: { level: 3 } };
  const post = (path: string, body: object): string =>
    `curl -s '${baseUrl}${path}' -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/json' -d '${JSON.stringify(body)}'`;
  // The other command looks where this one would by default.
  const elsewhere = dataDir === resolve(defaultDataDir) ? '' : `QUESTLOG_DATA_DIR='${dataDir}' `;
  return `
Questlog is ready (${seconds.toFixed(1)} s, revision ${revision}).

  games       ${baseUrl}
  operators   ${adminUrl}
  ClickHouse  ${clickhouse.url}  database ${clickhouse.database}, user ${clickhouse.username}
  credentials ${relative(process.cwd(), credentialsPath(dataDir))}

Send an event:

  ${post('/v1/ingest/events', event)}

Ask ClickHouse a question:

  ${elsewhere}npm run sql -- "SELECT event_type, count() FROM events GROUP BY event_type"

File a bug report; what its session did around it belongs to it:

  ${post('/v1/reports', { sessionId })}

`;
}
