/** Sends one request to Questlog and interprets the response. */
import type { GameOptions, ReportFile } from './gameOptions.ts';

/**
 * Maximum bytes of one batch. All requests of a closing page together have the same limit, because a browser limits their sum
 * to 64 KiB.
 */
export const KEEPALIVE_BYTES = 60_000;
const MIN_GZIP_BYTES = 1_024;
const ANSWER_TIMEOUT_MS = 30_000;
const UPLOAD_TIMEOUT_MS = 15 * 60_000;
/** If Questlog does not allow the origin of the page, the browser reports only that the request failed. */
const BROWSER_HINT =
  ' (check the network, the address and its port, which is 8080 for games, and QUESTLOG_CORS_ORIGINS)';
const MAX_RETRY_AFTER_MS = 3_600_000;
const UNSENT_CODES = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN'];

export interface Content {
  readonly text: string;
  readonly headers?: Record<string, string>;
  /** True if the request body can be compressed. False while the page closes, because compression would delay the request. */
  readonly mayGzip: boolean;
  /** Runs directly before the request starts. Returns false to cancel the request. */
  isWanted(): boolean;
  readonly signal: AbortSignal;
}

export interface Reply {
  /** HTTP status of the response. 0 if the response is missing or incomplete. */
  readonly status: number;
  readonly body?: unknown;
  readonly retryAfterMs?: number;
  readonly isUnsent?: boolean;
  readonly isRedirected?: boolean;
  /** Code of Questlog's problem document, or code of the network error. `not_questlog` if the response is not from Questlog. */
  readonly code: string;
  readonly message: string;
}

export async function post(options: GameOptions, path: string, content: Content): Promise<Reply> {
  const { url, token, fetch: send = fetch } = options;
  const { text, mayGzip, isWanted } = content;
  const headers = {
    Authorization: `Bearer ${token}`,
    'Content-Type': 'application/json',
    ...content.headers,
  };
  try {
    const isGzipped = mayGzip && text.length >= MIN_GZIP_BYTES;
    const body = isGzipped ? await gzip(text) : new TextEncoder().encode(text);
    if (!isWanted()) return { status: 0, isUnsent: true, code: 'unwanted', message: 'not sent' };
    const answer = await send(`${url.replace(/\/$/, '')}/v1/ingest/${path}`, {
      method: 'POST',
      headers: isGzipped ? { ...headers, 'Content-Encoding': 'gzip' } : headers,
      body,
      keepalive: body.length <= KEEPALIVE_BYTES,
      signal: withTimeout(ANSWER_TIMEOUT_MS, content.signal),
    });
    return replyOf(url, answer, parsed(await answer.text()));
  } catch (error) {
    return noReply(url, error);
  }
}

function replyOf(url: string, answer: Response, body: unknown): Reply {
  const { status, redirected: isRedirected, headers } = answer;
  const code = codeOf(body);
  const what = code ?? headers.get('Content-Type')?.replace(/;.*/, '') ?? 'without a type';
  const origin = code === undefined ? ', which is not a response from Questlog' : '';
  const where = isRedirected ? ` (redirected to ${answer.url})` : '';
  return {
    ...{ status, body, isRedirected, code: code ?? 'not_questlog' },
    message: `${url} answers ${status} ${what}${origin}${where}`,
    retryAfterMs: retryAfterOf(headers.get('Retry-After')),
  };
}

function noReply(url: string, error: unknown): Reply {
  const { name, message, cause } = error instanceof Error ? error : new Error(String(error));
  const code = fieldOf(cause, 'code');
  // After a network error, Node gives a code or a message in `cause`. A browser gives no reason.
  let reason = code ?? fieldOf(cause, 'message') ?? `${message}${BROWSER_HINT}`;
  if (name === 'TimeoutError') reason = `no answer within ${ANSWER_TIMEOUT_MS / 1_000} s`;
  if (code === 'EPROTO' || code?.startsWith('ERR_SSL'))
    reason += '; the port does not use TLS, so the address must start with http://';
  const isUnsent = UNSENT_CODES.includes(code ?? '');
  return { status: 0, isUnsent, code: code ?? name, message: `cannot reach ${url}: ${reason}` };
}

/** Adds a timeout to a signal. Node before 20.3 and old browsers have no `AbortSignal.any` and use only the timeout. */
function withTimeout(ms: number, signal: AbortSignal): AbortSignal {
  const limit = AbortSignal.timeout(ms);
  return AbortSignal.any?.([limit, signal]) ?? limit;
}

/** Uploads a file. @throws Error if Questlog rejects the file, if the upload is canceled, or if the network fails. */
export async function upload(
  options: GameOptions,
  upload: {
    data: Blob;
    file: Pick<ReportFile, 'attachmentType' | 'fileName'>;
    isWanted(): boolean;
    signal: AbortSignal;
  },
): Promise<ReportFile> {
  const { data, isWanted, signal } = upload;
  const file = { ...upload.file, mimeType: data.type, sizeBytes: data.size };
  const text = JSON.stringify(file);
  const { body, message } = await post(options, 'uploads', { text, mayGzip: false, isWanted, signal });
  if (!isWanted()) throw new Error('the file was not sent: offline, stopped, ended, or without consent');
  const [uploadId, address] = [fieldOf(body, 'uploadId'), fieldOf(body, 'uploadUrl')];
  if (uploadId === undefined || address === undefined) {
    throw new Error(`the file was rejected: ${message} ${fieldOf(body, 'message') ?? ''}`);
  }
  const { fetch: send = fetch } = options;
  const put = await send(address, {
    method: 'PUT',
    headers: { 'Content-Type': data.type },
    body: data,
    signal: withTimeout(UPLOAD_TIMEOUT_MS, signal),
  });
  if (!put.ok) throw new Error(`the file was rejected: ${put.status}`);
  return { uploadId, ...file };
}

export function codeOf(body: unknown): string | undefined {
  const code = fieldOf(body, 'code');
  return fieldOf(body, 'type') === `urn:questlog:problem:${code}` ? code : undefined;
}

export function fieldOf(value: unknown, name: string): string | undefined {
  const field: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
  return typeof field === 'string' ? field : undefined;
}

function retryAfterOf(header: string | null): number {
  const ms = Number(header) * 1_000 || Date.parse(header ?? '') - Date.now();
  return Math.min(Math.max(ms || 0, 0), MAX_RETRY_AFTER_MS);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function gzip(text: string): Promise<Uint8Array<ArrayBuffer>> {
  const zipped = new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'));
  return new Uint8Array(await new Response(zipped).arrayBuffer());
}

/** Returns a UUIDv7 if a time is given, otherwise a UUIDv4. Avoids `crypto.randomUUID`, which pages without TLS do not have. */
export function uuid(ms?: number): string {
  const random = [...crypto.getRandomValues(new Uint8Array(16))];
  const hex = random.map((byte) => byte.toString(16).padStart(2, '0')).join('');
  const time = ms?.toString(16).padStart(12, '0') ?? hex.slice(0, 12);
  const variant = '89ab'[(random[8] ?? 0) & 3];
  const start = `${time.slice(0, 8)}-${time.slice(8)}-${ms === undefined ? 4 : 7}${hex.slice(13, 16)}`;
  return `${start}-${variant}${hex.slice(17, 20)}-${hex.slice(20)}`;
}
