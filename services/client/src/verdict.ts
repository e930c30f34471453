/** Decides from a response whether the sent entries are accepted, rejected, or retried. */
import { codeOf, fieldOf, type Reply } from './post.ts';
import type { Unit } from './queue.ts';

interface Problem {
  readonly code: string;
  readonly message: string;
}

export type Verdict =
  /** Questlog has stored the entries, except entries that the response rejects one by one. */
  | { readonly kind: 'accepted' | 'tooFast' | 'encoding' }
  | ({ readonly kind: 'refused' } & Problem)
  /** No request can succeed until the token or the project is changed. */
  | ({ readonly kind: 'stopped' } & Problem)
  /** Questlog did not respond, or cannot accept the entries now. `isBlocked` is true if a proxy rejects this request. */
  | ({ readonly kind: 'unreachable'; readonly mayBeStored: boolean; readonly isBlocked: boolean } & Problem);

const STOP_CODES = ['unauthorized', 'forbidden', 'suspended'];
/** Problem codes for a wrong server or a request that a proxy has changed. They do not reject the entries. */
const NOT_ABOUT_ENTRIES = [
  ...['not_found', 'method_not_allowed', 'misdirected_request', 'request_timeout'],
  ...['unsupported_media_type', 'unsupported_encoding', 'invalid_encoding', 'expectation_failed'],
];

/** @param mayGzip true if the request may be compressed, so that a retry without compression can succeed. */
export function verdictOf(unit: Unit, reply: Reply, mayGzip: boolean): Verdict {
  const { status, body } = reply;
  const isOk = status >= 200 && status < 300;
  if (isOk && isAnswer(unit, body)) {
    // If the batch is retried with its key, Questlog stores the missing elements.
    const isTooFast =
      Array.isArray(body) && body.some((element) => fieldOf(element, 'code') === 'rate_limited');
    return { kind: isTooFast ? 'tooFast' : 'accepted' };
  }
  const code = codeOf(body);
  const isRejected = status >= 400 && status < 500;
  if (code === undefined) {
    const isBlocked = isRejected && ![401, 407, 408, 429].includes(status);
    const mayBeStored = !reply.isUnsent && status !== 413;
    return { kind: 'unreachable', code: reply.code, message: reply.message, mayBeStored, isBlocked };
  }
  const problem = { code, message: fieldOf(body, 'message') ?? '' };
  if (status === 429) return { kind: 'tooFast' };
  if (code.endsWith('_encoding') && mayGzip) return { kind: 'encoding' };
  // A rejection after a redirect does not mean an invalid token, because a redirect to another host drops the token.
  if (STOP_CODES.includes(code) && !reply.isRedirected) return { kind: 'stopped', ...problem };
  if (isRejected && ![...NOT_ABOUT_ENTRIES, ...STOP_CODES].includes(code))
    return { kind: 'refused', ...problem };
  const message = `${reply.message}: ${problem.message}`;
  return { kind: 'unreachable', code, message, mayBeStored: !isRejected, isBlocked: false };
}

/** Returns true if a body has the shape of Questlog's response: an id, or an element for each event. */
function isAnswer([head, ...others]: Unit, body: unknown): boolean {
  if (head.kind !== 'event') return fieldOf(body, 'id') !== undefined;
  if (!Array.isArray(body) || body.length !== 1 + others.length) return false;
  return body.every((element) => fieldOf(element, 'id') ?? fieldOf(element, 'code'));
}
