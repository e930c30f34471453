/** Starts an embedded ClickHouse on its own directory for tests. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ClickHouseClient, ClickHouseLogLevel, createClient } from '@clickhouse/client';
import {
  type EmbeddedClickHouse,
  type EmbeddedClickHouseOptions,
  startEmbeddedClickHouse,
} from '../embeddedClickHouse.ts';
import { fillWithTables } from './migratedFolder.ts';
import { closeSharedEngine } from './sharedEngine.ts';

export interface TestServer extends AsyncDisposable {
  server: EmbeddedClickHouse;
  /** Credentials of the read-only account. */
  reader: { username: string; password: string };
  client: ClickHouseClient;
  directory: string;
  /** Posts a query and returns the text of the response. Throws the text of an error response. */
  ask(sql: string, parameters?: Record<string, string>): Promise<string>;
  /** Posts a query with the read-only account. Otherwise equal to `ask`. */
  askAsReader(sql: string, parameters?: Record<string, string>): Promise<string>;
  /** Returns the only value of a result. */
  number(sql: string): Promise<number>;
}

export async function aClickHouse({
  hasTables = false,
  ...options
}: Partial<EmbeddedClickHouseOptions> & { hasTables?: boolean } = {}): Promise<TestServer> {
  await closeSharedEngine();
  const directory = await mkdtemp(join(tmpdir(), 'questlog-clickhouse-'));
  if (hasTables) fillWithTables(directory);
  const reader = { username: 'reader', password: 'read-only' };
  const server = await startEmbeddedClickHouse({ directory, password: 'secret', reader, ...options });
  const client = createClient({
    url: server.url,
    username: server.username,
    password: server.password,
    // Disables the client's log, because tests expect errors and assert them.
    log: { level: ClickHouseLogLevel.OFF },
  });

  const askAs =
    (account: { username: string; password: string }) =>
    async (sql: string, parameters: Record<string, string> = {}): Promise<string> => {
      const query = new URLSearchParams(parameters);
      const response = await fetch(`${server.url}/?${query}`, {
        method: 'POST',
        body: sql,
        headers: auth(account),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(text);
      return text;
    };
  const ask = askAs(server);

  return {
    server,
    reader,
    client,
    directory,
    ask,
    askAsReader: askAs(reader),
    number: async (sql) => Number(await ask(sql)),
    async [Symbol.asyncDispose]() {
      await client.close();
      await server.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

export function auth({ username, password }: { username: string; password: string }): {
  authorization: string;
} {
  return { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` };
}
