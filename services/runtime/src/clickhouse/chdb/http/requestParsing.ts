/** Parses the URL parameters and headers of a request, as ClickHouse's HTTP interface does. */

import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { StudioReader } from '../../studioTables.ts';
import { exceptions } from './httpErrors.ts';

export type Access = 'product' | 'reader';

export interface Caller {
  access: Access;
  /** Account of a studio, which has the access `reader`. Undefined for other accounts. */
  studio?: StudioReader;
  /** Throws if the account of a studio was dropped, has expired, or has a new password since the authentication. */
  checkAccount?: () => void;
}

export interface RequestHead extends Caller {
  path: string;
  method: string;
  /** Text of the query in the URL. The query continues in the body of the request. */
  urlQuery: string;
  queryId: string;
  database: string | undefined;
  defaultFormat: string;
  settings: ReadonlyMap<string, string>;
  parameters: ReadonlyMap<string, string>;
  encoding: ResponseEncoding | undefined;
  /** True if the response must have ClickHouse's own compression. */
  compress: boolean;
  /** Version of the format Native that the client reads. 0 if the client sends no version. */
  clientVersion: number;
  contentEncoding: string;
  contentType: string;
}

export interface Credentials {
  username: string;
  password: string;
}

export interface Accounts extends Readonly<Record<Access, Credentials>> {
  /** Accounts of studios by their names. The map changes while the server runs. */
  readonly studios: ReadonlyMap<string, StudioReader>;
}

export type ResponseEncoding = 'zstd' | 'gzip' | 'deflate' | 'br';

/** Parses a request. @throws ClickHouseException for an unsupported parameter or an invalid id. */
export function readRequestHead(request: IncomingMessage, caller: Caller): RequestHead {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://embedded');
  const field = (name: string) => searchParams.get(name) ?? '';
  const { settings, parameters } = splitParameters(searchParams);
  const method = request.method ?? 'GET';
  const queryId = field('query_id') || randomUUID();
  if (!QUERY_ID.test(queryId)) throw exceptions.badArguments(INVALID_QUERY_ID);
  // A GET request must not change data, because caches, crawlers, and curl rely on this rule.
  if (method !== 'POST' && !settings.has('readonly')) settings.set('readonly', '2');
  // Ignores a reader's own value of `readonly`, because the engine sets a stricter value for readers.
  if (caller.access === 'reader') settings.delete('readonly');
  return {
    ...caller,
    path: pathname,
    method,
    urlQuery: field('query'),
    queryId,
    database: field('database') || header(request, 'x-clickhouse-database') || undefined,
    defaultFormat: field('default_format') || header(request, 'x-clickhouse-format') || DEFAULT_FORMAT,
    settings,
    parameters,
    encoding: chooseEncoding(header(request, 'accept-encoding'), field('enable_http_compression')),
    compress: !DISABLED.has(field('compress')),
    clientVersion: Number(field('client_protocol_version')) || 0,
    contentEncoding: header(request, 'content-encoding').trim().toLowerCase(),
    contentType: header(request, 'content-type'),
  };
}

/** Returns the credentials of a request. Credentials in headers override credentials in the URL. */
export function readCredentials(request: IncomingMessage): Credentials | undefined {
  const username = header(request, 'x-clickhouse-user');
  const password = header(request, 'x-clickhouse-key');
  if (username !== '' || password !== '') return { username: username || DEFAULT_USER, password };
  const basic = /^Basic\s+(\S+)$/i.exec(header(request, 'authorization'))?.[1];
  if (basic !== undefined) {
    const [user = '', ...rest] = Buffer.from(basic, 'base64').toString('utf8').split(':');
    return { username: user || DEFAULT_USER, password: rest.join(':') };
  }
  const { searchParams } = new URL(request.url ?? '/', 'http://embedded');
  if (!searchParams.has('user') && !searchParams.has('password')) return undefined;
  return {
    username: searchParams.get('user') || DEFAULT_USER,
    password: searchParams.get('password') ?? '',
  };
}

export function splitParameters(fields: Iterable<readonly [name: string, value: string]>): {
  settings: Map<string, string>;
  parameters: Map<string, string>;
} {
  const settings = new Map<string, string>();
  const parameters = new Map<string, string>();
  for (const [name, value] of fields) {
    if (UNSUPPORTED.has(name) && value !== '' && value !== '0') {
      throw exceptions.notImplemented(`The embedded ClickHouse does not support the parameter '${name}'.`);
    }
    if (RESERVED.has(name) || UNSUPPORTED.has(name)) continue;
    if (!NAME.test(name)) throw exceptions.unknownSetting(`Unknown setting '${name}'.`);
    if (name.startsWith('param_')) parameters.set(name, value);
    else settings.set(name, value);
  }
  return { settings, parameters };
}

function header(request: IncomingMessage, name: string): string {
  const value = request.headers[name];
  return (Array.isArray(value) ? value.join(',') : value) ?? '';
}

/** Returns the best coding that the client accepts. A client that accepts only `lz4` gets an uncompressed response. */
function chooseEncoding(accepted: string, enabled: string): ResponseEncoding | undefined {
  if (enabled !== '' && DISABLED.has(enabled)) return undefined;
  const offered = new Set(accepted.split(',').map((coding) => coding.split(';')[0]?.trim().toLowerCase()));
  return ENCODINGS.find((encoding) => offered.has(encoding));
}

const DISABLED: ReadonlySet<string> = new Set(['', '0', 'false']);
const DEFAULT_FORMAT = 'TabSeparated';
const DEFAULT_USER = 'default';
const ENCODINGS: readonly ResponseEncoding[] = ['zstd', 'gzip', 'br', 'deflate'];
/** Characters that a response header can contain. The limit of the length is our own, because ClickHouse has none. */
const QUERY_ID = /^[\x20-\x7e]{1,256}$/;
const INVALID_QUERY_ID = 'query_id must have at most 256 printable ASCII characters.';
const NAME = /^[A-Za-z_][A-Za-z0-9_.]*$/;

/** URL parameters of ClickHouse that are not settings, from ClickHouse's list `reserved_param_names`. */
const RESERVED = new Set(
  `query query_id database default_format user password quota_key stacktrace buffer_size wait_end_of_query
   session_id session_timeout session_check close_session client_protocol_version compress`.split(/\s+/),
);

/** ClickHouse's own compression of requests (`decompress`) is not supported. */
const UNSUPPORTED = new Set(['decompress', 'role']);
