/** Decides from a response whether entries are accepted, rejected, or retried. */
import { codeOf, fieldOf, type Reply } from './post.ts';
import type { Unit } from './queue.ts';

interface Problem {
  readonly code: string;
  readonly message: string;
}

export type Verdict =
  /** `accepted` means that Questlog stored the entries, except the entries that the response rejects individually. */
  | { readonly kind: 'accepted' | 'tooFast' | 'encoding' }
  | ({ readonly kind: 'refused' } & Problem)
  /** `stopped` means that every request will fail until the operator changes the token or the project. */
  | ({ readonly kind: 'stopped' } & Problem)
  /** `unreachable` means that the client sends the entries again later. `isBlocked` is true if a proxy rejected the request. */
  | ({ readonly kind: 'unreachable'; readonly mayBeStored: boolean; readonly isBlocked: boolean } & Problem);

const STOP_CODES = ['unauthorized', 'forbidden', 'suspended'];
/** Codes of problems with the request itself: the URL leads to another server, or a proxy has changed the request. */
const NOT_ABOUT_ENTRIES = [
  ...['not_found', 'method_not_allowed', 'misdirected_request', 'request_timeout'],
  ...['unsupported_media_type', 'unsupported_encoding', 'invalid_encoding', 'expectation_failed'],
];

/** @param mayGzip true if the client can compress requests. If Questlog rejects the encoding, the client stops compressing. */
export function verdictOf(unit: Unit, reply: Reply, mayGzip: boolean): Verdict {
  const { status, body } = reply;
  const isOk = status >= 200 && status < 300;
  if (isOk && isAnswer(unit, body)) {
    // If Questlog rejects some elements as `rate_limited`, the client retries the whole batch with the same idempotency key.
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
  // A token without the scope `reports:write` can still send sessions and events.
  const isStop = STOP_CODES.includes(code) && !(code === 'forbidden' && unit[0].kind === 'report');
  // After a redirect to another host, `fetch` omits the token. If that host rejects the request, this does not prove that the
  // token is invalid.
  if (isStop && !reply.isRedirected) return { kind: 'stopped', ...problem };
  if (isRejected && !isStop && !NOT_ABOUT_ENTRIES.includes(code)) return { kind: 'refused', ...problem };
  const message = `${reply.message}: ${problem.message}`;
  return { kind: 'unreachable', code, message, mayBeStored: !isRejected, isBlocked: false };
}

/** Returns true if a body has the form of a response from Questlog: an id, or one element for each event of the batch. */
function isAnswer([head, ...others]: Unit, body: unknown): boolean {
  if (head.kind !== 'event') return fieldOf(body, 'id') !== undefined;
  if (!Array.isArray(body) || body.length !== 1 + others.length) return false;
  return body.every((element) => fieldOf(element, 'id') ?? fieldOf(element, 'code'));
}
