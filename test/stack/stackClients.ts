/** Generic clients of the engines of a stack, without code of Questlog's services. */
import { type PlainClient, plainClient } from '@questlog/runtime/log/kafka/testing/plainClient';

export interface StackClients extends PlainClient {
  /** Registers a schema. @returns its id. */
  register(subject: string, schema: string): Promise<number>;
  /** Returns a schema. @throws Error if the registry has no schema with this id. */
  schema(id: number): Promise<string>;
  /** Runs a statement and returns the response as text. @throws Error with the text of the failure. */
  query(sql: string): Promise<string>;
}

/** Creates the clients. @param env environment variables that `npm run stack -- up` printed. */
export function clientsOf(env: Readonly<Record<string, string>>): StackClients {
  const { username, password, host, pathname } = new URL(env['CLICKHOUSE_URL'] ?? '');
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
  const registryUrl = env['SCHEMA_REGISTRY_URL'] ?? '';

  async function query(sql: string): Promise<string> {
    const url = `http://${host}/?database=${pathname.slice(1)}`;
    const response = await fetch(url, { method: 'POST', body: sql, headers: { authorization } });
    const text = await response.text();
    if (!response.ok) throw new Error(text);
    return text;
  }

  return {
    ...plainClient(env['KAFKA_BROKERS'] ?? ''),
    register: async (subject, schema) => {
      const path = `/subjects/${subject}/versions`;
      return (await ask<{ id: number }>(registryUrl, path, JSON.stringify({ schema }))).id;
    },
    schema: async (id) => (await ask<{ schema: string }>(registryUrl, `/schemas/ids/${id}`)).schema,
    query,
  };
}

async function ask<T>(registryUrl: string, path: string, body?: string): Promise<T> {
  const headers = { 'content-type': 'application/vnd.schemaregistry.v1+json' };
  const init = body === undefined ? {} : { method: 'POST', body, headers };
  const response = await fetch(`${registryUrl}${path}`, init);
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return JSON.parse(text);
}
