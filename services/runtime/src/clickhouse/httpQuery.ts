/**
 * Sends queries to ClickHouse over HTTP. For a small query, the package `@clickhouse/client` would take three times the CPU
 * time.
 */
import { randomUUID } from 'node:crypto';
import { type Agent, Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { text } from 'node:stream/consumers';
import { urlToHttpOptions } from 'node:url';
import { parseError } from '@clickhouse/client';

export interface HttpQueries {
  /**
   * Runs a SELECT and returns its rows as objects.
   * @throws ClickHouseError if ClickHouse rejects the query, and other errors if ClickHouse does not answer
   */
  run<Row>(
    sql: string,
    params: Readonly<Record<string, unknown>>,
    settings: Readonly<Record<string, string | number>>,
  ): Promise<Row[]>;
  close(): void;
}

interface ServerOptions {
  readonly url: string;
  readonly username: string;
  readonly password: string;
  readonly database: string;
  readonly caPem: string;
  readonly maxConnections: number;
  /** Maximum time without any data from the server during a query. */
  readonly timeoutMs: number;
}

/** Time after which an unused connection is closed. Servers close unused connections later. */
const IDLE_CONNECTION_MS = 2_500;
/** Minimum length of a statement that is sent as the body. ClickHouse limits a field of a form to 128 KiB. */
const LONG_STATEMENT = 64 * 1024;

export function openHttpQueries(options: ServerOptions): HttpQueries {
  const { username, password, database, caPem, maxConnections, timeoutMs } = options;
  const url = new URL(options.url);
  const isEncrypted = url.protocol === 'https:';
  const connections = { keepAlive: true, maxSockets: maxConnections, timeout: IDLE_CONNECTION_MS };
  const agent: Agent = isEncrypted
    ? new HttpsAgent({ ...connections, ...(caPem === '' ? {} : { ca: caPem }) })
    : new HttpAgent(connections);
  const start = isEncrypted ? httpsRequest : httpRequest;
  // The boundary is random, so a game cannot send a text that contains the boundary.
  const boundary = `----questlog-${randomUUID()}`;
  const form = `multipart/form-data; boundary=${boundary}`;
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
  const { hostname, port } = urlToHttpOptions(url);
  const server = { agent, hostname, port, method: 'POST', timeout: timeoutMs };
  return {
    run: async (sql, params, settings) => {
      const search = new URLSearchParams({ database, default_format: 'JSONEachRow', ...ERRORS_AS_TEXT });
      for (const [name, value] of Object.entries(settings)) search.set(name, String(value));
      const isLong = sql.length >= LONG_STATEMENT;
      if (isLong) for (const [name, value] of textsOf(params)) search.set(name, value);
      const headers = { Authorization: authorization, 'Content-Type': isLong ? 'text/plain' : form };
      const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
      const sent = start({ ...server, headers, path: `/?${search}` }, resolve);
      sent.on('error', reject);
      sent.on('timeout', () => sent.destroy(new Error(`no answer within ${timeoutMs / 1000} s`)));
      sent.end(isLong ? sql : formOf(boundary, [['query', sql], ...textsOf(params)]));
      const response = await promise;
      const answer = await text(response);
      if (response.statusCode !== 200) throw parseError(answer);
      return rowsOf(answer);
    },
    close: () => agent.destroy(),
  };
}

/**
 * If a query fails after its first rows, an old version of ClickHouse would return the error as a row. This setting prevents
 * that.
 */
const ERRORS_AS_TEXT = { http_write_exception_in_output_format: '0' };

function textsOf(params: Readonly<Record<string, unknown>>): [name: string, value: string][] {
  return Object.entries(params).map(([name, value]) => [`param_${name}`, textOfParam(value)]);
}

/**
 * Returns a form with the statement and its parameters. A URL would be too short for long parameters, because servers limit a
 * URL to about 16 KiB.
 */
function formOf(boundary: string, parts: readonly (readonly [name: string, value: string])[]): string {
  const texts = parts.map(
    ([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  return `${texts.join('')}--${boundary}--\r\n`;
}

/** Formats a parameter in ClickHouse's format TabSeparated. */
function textOfParam(value: unknown): string {
  if (value === null || value === undefined) return '\\N';
  return Array.isArray(value) ? elementOf(value) : escaped(String(value));
}

function elementOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(elementOf).join(',')}]`;
  return typeof value === 'string' ? `'${escaped(value)}'` : String(value);
}

function escaped(raw: string): string {
  return raw.replace(/[\\'\t\n\r]/g, (found) => ESCAPES[found] ?? found);
}

const ESCAPES: Readonly<Record<string, string>> = {
  '\\': '\\\\',
  "'": "\\'",
  '\t': '\\t',
  '\n': '\\n',
  '\r': '\\r',
};

/** @throws ClickHouseError if the query failed after the first rows. The response then ends with the error. */
function rowsOf<Row>(answer: string): Row[] {
  try {
    return JSON.parse(`[${answer.trimEnd().replaceAll('\n', ',')}]`);
  } catch {
    // A row contains no line feed, so the first line that starts with `Code: ` is the error.
    throw parseError(answer.slice(answer.search(/^Code: /m)));
  }
}
