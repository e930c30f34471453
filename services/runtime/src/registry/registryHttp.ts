/**
 * Sends requests to a Confluent-compatible registry. Distinguishes responses of the registry from responses of a proxy, because
 * the 404 of a proxy does not mean that a schema is unknown.
 */
import { type Agent, Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { StartRefused, Unavailable } from '../process/errors.ts';

export interface RegistryAddress {
  /** URL of the registry, without credentials and without a trailing slash. */
  readonly url: string;
  readonly auth: { readonly username: string; readonly password: string } | undefined;
  readonly agent: Agent;
}

export interface RegistryResponse {
  readonly status: number;
  /** Fields of the response. Empty if the response is not a JSON object, for example the error page of a proxy. */
  readonly body: Readonly<Record<string, unknown>>;
}

export const REQUEST_TIMEOUT_MS = 5_000;
const MAX_RESPONSE_BYTES = 4 * 1024 * 1024;
const CONTENT_TYPE = 'application/vnd.schemaregistry.v1+json';

/** Settings of the registry. An empty setting counts as not set. */
export interface RegistrySettings {
  /** URL of the registry, without `/subjects`. `username` and `password` override the credentials in the URL. */
  readonly url: string;
  readonly username?: string;
  readonly password?: string;
  readonly caPem?: string;
}

/**
 * Returns the address and credentials of the registry.
 * @throws StartRefused if the URL is invalid. The message omits the URL, because it can contain a password.
 */
export function registryAddress(options: RegistrySettings): RegistryAddress {
  const url = URL.parse(options.url);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new StartRefused('the URL of the schema registry must begin with http:// or https://');
  }
  const { username = '', password = '', caPem = '' } = options;
  const auth = {
    username: username || decodeURIComponent(url.username),
    password: password || decodeURIComponent(url.password),
  };
  return {
    url: `${url.origin}${url.pathname.replace(/\/$/, '')}`,
    auth: auth.username === '' ? undefined : auth,
    agent: url.protocol === 'https:' ? new HttpsAgent(caPem === '' ? {} : { ca: caPem }) : new HttpAgent(),
  };
}

/** Sends a request. @throws Unavailable if no response arrives in time, or if the response is not from a working registry. */
export async function requestRegistry(
  address: RegistryAddress,
  method: 'GET' | 'PUT',
  path: string,
  body?: object,
): Promise<RegistryResponse> {
  const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
  let answer: RegistryResponse;
  try {
    const response = await send(address, { method, path, body, signal });
    answer = { status: response.statusCode ?? 0, body: parsed(await textOf(response)) };
  } catch (cause) {
    const why = signal.aborted ? `no response within ${REQUEST_TIMEOUT_MS / 1000} s` : reasonOf(cause);
    throw new Unavailable(`the schema registry at ${address.url} does not answer: ${why}`, { cause });
  }
  const { status } = answer;
  if (status === 200 || status === 401 || status === 403 || isRegistryError(answer)) return answer;
  throw new Unavailable(`the schema registry at ${address.url} answers with status ${status}`);
}

/** Returns true if the registry reports "not found": 40401 (subject), 40403 (schema), or 40408 (setting of a subject). */
export function isNotFound({ status, body }: RegistryResponse): boolean {
  return status === 404 && typeof body['error_code'] === 'number';
}

/** Returns a short text for a connection error. If connections over IPv4 and IPv6 both fail, Node's error has no message. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message !== '' ? error.message : String(Reflect.get(error, 'code') ?? error.name);
}

function isRegistryError({ status, body }: RegistryResponse): boolean {
  return status >= 400 && status < 500 && status !== 429 && typeof body['error_code'] === 'number';
}

function send(
  { url, auth, agent }: RegistryAddress,
  request: { method: string; path: string; body: object | undefined; signal: AbortSignal },
): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const start = url.startsWith('https:') ? httpsRequest : httpRequest;
  const sent = start(
    `${url}${request.path}`,
    {
      method: request.method,
      agent,
      signal: request.signal,
      headers: { Accept: CONTENT_TYPE, 'Content-Type': CONTENT_TYPE },
      ...(auth && { auth: `${auth.username}:${auth.password}` }),
    },
    resolve,
  );
  sent.on('error', reject);
  sent.end(request.body === undefined ? undefined : JSON.stringify(request.body));
  return promise;
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    bytes += chunk.length;
    if (bytes > MAX_RESPONSE_BYTES)
      throw new Error(`the response is larger than ${MAX_RESPONSE_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parsed(text: string): RegistryResponse['body'] {
  try {
    return { ...JSON.parse(text) };
  } catch {
    return {};
  }
}
