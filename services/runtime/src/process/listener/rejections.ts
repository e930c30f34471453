/** Rejects unreadable and ambiguous requests, so that no handler receives the requests. */
import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { LingeringClose } from './lingeringClose.ts';

export interface Rejection {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}
/** Reason for rejecting a request. `malformed` includes headers that are too large. */
export type RejectionReason = 'malformed' | 'tooSlow' | 'smallChunks';
export type RejectionFor = (reason: RejectionReason) => Rejection;

export const TOO_SLOW_CODE = 'ERR_HTTP_REQUEST_TIMEOUT';
export const SMALL_CHUNKS_CODE = 'SMALL_CHUNKS';

/** Default headers of every response. Caches must not store a response, and browsers must not guess its content type. */
export const COMMON_HEADERS: ReadonlyMap<string, string> = new Map([
  ['Cache-Control', 'no-store'],
  ['X-Content-Type-Options', 'nosniff'],
]);

const REASON_BY_CODE: Readonly<Record<string, RejectionReason>> = {
  [TOO_SLOW_CODE]: 'tooSlow',
  [SMALL_CHUNKS_CODE]: 'smallChunks',
};

export function reject(
  error: NodeJS.ErrnoException,
  socket: Duplex,
  rejectionFor: RejectionFor,
  lingeringClose: LingeringClose,
): void {
  const rejection = rejectionFor(REASON_BY_CODE[error.code ?? ''] ?? 'malformed');
  const lines = [
    `HTTP/1.1 ${rejection.status} ${STATUS_CODES[rejection.status]}`,
    ...Object.entries(headersOf(rejection)).map(([name, value]) => `${name}: ${value}`),
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n${rejection.body}`);
  lingeringClose.begin(socket);
}

export function headersOf({ headers, body }: Rejection): Record<string, string> {
  return {
    Connection: 'close',
    ...Object.fromEntries(COMMON_HEADERS),
    ...headers,
    'Content-Length': String(Buffer.byteLength(body)),
  };
}

export function emptyRejection(reason: RejectionReason): Rejection {
  return { status: reason === 'tooSlow' ? 408 : 400, headers: {}, body: '' };
}

export function errorWithCode(message: string, code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(message), { code });
}

/** Returns true if a request's target, version, framing, or hosts are ambiguous (RFC 9112, sections 2.3, 3.2, and 6). */
export function isMalformed({ url = '', httpVersion, headers, rawHeaders }: IncomingMessage): boolean {
  const isOld = httpVersion === '1.0';
  const coding = headers['transfer-encoding'];
  const hosts = rawHeaders.filter((name, i) => i % 2 === 0 && name.toLowerCase() === 'host').length;
  return (
    !isTarget(url) ||
    (httpVersion !== '1.1' && !isOld) ||
    (coding !== undefined && (isOld || coding.toLowerCase() !== 'chunked')) ||
    (isOld ? hosts > 1 : hosts !== 1)
  );
}

/** Returns true if the target is a path, `*`, or an absolute URL without user and fragment (RFC 9110, 4.2; RFC 9112, 3.2). */
function isTarget(url: string): boolean {
  if (url.startsWith('/')) return !url.includes('#');
  return url === '*' || (ADDRESS.test(url) && URL.canParse(url));
}

const ADDRESS = /^https?:\/\/[\w.:[\]-]+(?:[/?][^#]*)?$/i;
