/** Small schema registry for tests. It responds like Confluent's registry, counts requests, and can return wrong responses. */
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { type Logger, silentLogger } from '../../process/logger.ts';
import { type ConfluentRegistryOptions, openConfluentRegistry } from '../confluentRegistry.ts';
import type { SchemaRegistry } from '../registry.ts';

interface StubRequest {
  readonly method: string;
  readonly path: string;
  readonly authorization: string | undefined;
}

interface StubResponse {
  readonly status: number;
  /** Body of the response. A string is sent unchanged, like the error page of a proxy. */
  readonly body: object | string;
}

export class RegistryStub {
  readonly requests: StubRequest[] = [];
  /** Compatibility levels by subject. */
  readonly levels = new Map<string, string>();
  /** Schemas in the order of their ids. The first id is 1. */
  readonly schemas: string[] = [];
  /** Returns a response that replaces the usual response. Undefined keeps the usual response. */
  respond = (_request: StubRequest): StubResponse | undefined => undefined;
  url = '';

  countOf(path: string): number {
    return this.requests.filter((requests) => requests.path === path).length;
  }

  readonly listener: RequestListener = async (request, response) => {
    const { method = '', url: path = '', headers } = request;
    const requests = { method, path, authorization: headers.authorization };
    this.requests.push(requests);
    const sent = await text(request);
    const { status, body } =
      this.respond(requests) ?? this.#own(requests, sent === '' ? {} : JSON.parse(sent));
    response.statusCode = status;
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };

  #own({ method, path }: StubRequest, sent: { schema?: string; compatibility?: string }): StubResponse {
    const [kind, name = '', what] = path.split('/').slice(1);
    if (kind === 'schemas') return this.#schema(Number(what));
    if (kind === 'subjects') return { status: 200, body: { id: this.#idOf(sent.schema ?? '') } };
    if (method === 'PUT') this.levels.set(name, sent.compatibility ?? '');
    const compatibilityLevel = this.levels.get(name);
    if (compatibilityLevel === undefined) return errorResponse(404, 40408, 'no subject-level compatibility');
    return { status: 200, body: method === 'PUT' ? sent : { compatibilityLevel } };
  }

  #schema(id: number): StubResponse {
    const schema = this.schemas[id - 1];
    return schema === undefined
      ? errorResponse(404, 40403, `Schema ${id} not found`)
      : { status: 200, body: { schema } };
  }

  #idOf(schema: string): number {
    if (!this.schemas.includes(schema)) this.schemas.push(schema);
    return this.schemas.indexOf(schema) + 1;
  }
}

export function errorResponse(status: number, errorCode: number, message: string): StubResponse {
  return { status, body: { error_code: errorCode, message } };
}

/** Starts a registry that runs until the test ends. The registry uses TLS if a certificate is passed. */
export async function aRegistryStub(tls?: { key: string; cert: string }): Promise<RegistryStub> {
  const stub = new RegistryStub();
  const server = tls === undefined ? createServer(stub.listener) : createHttpsServer(tls, stub.listener);
  const port = await listening(server);
  stub.url = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
  return stub;
}

export function registryAt(url: string, options: Partial<ConfluentRegistryOptions> = {}): SchemaRegistry {
  const logger: Logger = silentLogger;
  return openConfluentRegistry({ url, subjectPrefix: '', logger, startTimeoutMs: 300, ...options });
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}
