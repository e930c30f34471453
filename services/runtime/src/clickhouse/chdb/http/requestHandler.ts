/** Handles an HTTP request: authenticates the client, parses the request, runs the query, and sends the response. */

import { hash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { StudioReader } from '../../studioTables.ts';
import { MAX_DISCARDED_BYTES, MAX_OPEN_REQUESTS } from '../engine/limits.ts';
import { type Execution, execute, type ReaderQuery } from './execution.ts';
import { exceptions, fromEngine } from './httpErrors.ts';
import { decodeContent, readForm } from './requestBody.ts';
import {
  type Access,
  type Accounts,
  type Caller,
  type Credentials,
  type RequestHead,
  readCredentials,
  readRequestHead,
} from './requestParsing.ts';
import { sendError, sendResult, sendText } from './responses.ts';

export type Backend = Pick<
  Execution,
  'engine' | 'admission' | 'files' | 'studioQuota' | 'onStudioStatement'
> & {
  readers: Map<AbortController, ReaderQuery>;
  onRequestFailure(error: unknown): void;
};

/** Handles a request. The promise never rejects, because an unhandled rejection would end the process. */
export async function handleRequest(
  backend: Backend,
  accounts: Accounts,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const abandoned = new AbortController();
  let head: RequestHead | undefined;
  response.once('close', () => {
    abandoned.abort();
    backend.readers.delete(abandoned);
  });
  try {
    if (/^\/ping\/?(\?|$)/.test(request.url ?? '')) return sendText(response, 'Ok.\n');
    head = readRequestHead(request, authenticate(accounts, readCredentials(request), response));
    if (head.path !== '/') throw exceptions.unknownTable(`There is no ${head.path}, only / and /ping.`);
    if (head.access === 'reader') {
      backend.readers.set(abandoned, head);
      if (openRequestsOf(backend, head) > MAX_OPEN_REQUESTS)
        throw exceptions.tooManyQueries(TOO_MANY_REQUESTS);
    }
    await executeRequest(backend, request, response, head, abandoned.signal);
  } catch (error) {
    await discardBody(request);
    try {
      if (!request.complete && !response.headersSent) response.setHeader('Connection', 'close');
      sendError(response, head, backend.engine, fromEngine(error));
    } catch (failure) {
      backend.onRequestFailure(failure);
      response.destroy();
    }
  }
}

/** Counts the open requests of an account. The other accounts must not wait for an account with many requests. */
function openRequestsOf({ readers }: Backend, { studio }: RequestHead): number {
  return [...readers.values()].filter((other) => other.studio?.username === studio?.username).length;
}

async function executeRequest(
  backend: Backend,
  request: IncomingMessage,
  response: ServerResponse,
  urlHead: RequestHead,
  signal: AbortSignal,
): Promise<void> {
  // Keeps the connection open if a part of the request's body is unread, so that an error response can be sent.
  const body = decodeContent(request.iterator({ destroyOnReturn: false }), urlHead.contentEncoding);
  const isForm = /^multipart\/form-data/i.test(urlHead.contentType);
  const head = isForm ? await readForm(urlHead, body) : urlHead;
  if (head.method === 'GET' && head.urlQuery === '') return sendText(response, 'Ok.\n');
  const result = await execute({ ...backend, head, signal }, isForm ? emptyBody() : body);
  const release = backend.admission[head.access].trackResult(result.body.bytes);
  if (response.closed) release();
  else response.once('close', release);
  await sendResult(response, head, backend.engine, result);
}

/** Reads a part of the request's body before an error response, so that TCP does not reset the connection of the client. */
async function discardBody(request: IncomingMessage): Promise<void> {
  if (request.complete || request.destroyed) return;
  let bytes = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      bytes += chunk.length;
      if (bytes > MAX_DISCARDED_BYTES) return;
    }
  } catch {
    // Ignores the error, because the client has disconnected.
  }
}

function authenticate(
  accounts: Accounts,
  credentials: Credentials | undefined,
  response: ServerResponse,
): Caller {
  const accesses: readonly Access[] = ['product', 'reader'];
  const access = accesses.find((name) => credentials !== undefined && areEqual(accounts[name], credentials));
  if (access !== undefined) return { access };
  const findStudio = () => {
    const studio = accounts.studios.get(credentials?.username ?? '');
    return studio && hasPassword(studio, credentials?.password ?? '') ? studio : undefined;
  };
  const name = credentials?.username ?? accounts.product.username;
  const message = `${name}: Authentication failed: password is incorrect, or there is no user with such name.`;
  const studio = findStudio();
  if (studio !== undefined) {
    const checkAccount = () => {
      if (findStudio() === undefined) throw exceptions.authenticationFailed(message);
    };
    return { access: 'reader', studio, checkAccount };
  }
  if (credentials !== undefined) throw exceptions.authenticationFailed(message);
  response.setHeader('WWW-Authenticate', 'Basic realm="ClickHouse server HTTP API"');
  throw exceptions.requiredPassword(message);
}

function hasPassword({ sha256, expiresAt }: StudioReader, password: string): boolean {
  const isValid = expiresAt === null || Date.now() < expiresAt;
  return isValid && timingSafeEqual(Buffer.from(hash('sha256', password)), Buffer.from(sha256));
}

const TOO_MANY_REQUESTS = `Too many simultaneous queries. Maximum: ${MAX_OPEN_REQUESTS}.`;

/** Compares digests of equal length, so that the duration of the comparison does not reveal the password. */
function areEqual(one: Credentials, other: Credentials): boolean {
  const digest = ({ username, password }: Credentials) =>
    hash('sha256', JSON.stringify([username, password]), 'buffer');
  return timingSafeEqual(digest(one), digest(other));
}

async function* emptyBody(): AsyncGenerator<Buffer> {}
