/** Kinds of requests whose cost the benchmark compares with the cost of a plain request. */
import { randomUUID } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { aKey } from '../../e2e/builders.ts';
import { requestOf } from '../path/rawHttp.ts';

export interface RequestKind {
  /** Difference to a plain request. */
  readonly title: string;
  readonly headers?: readonly string[];
  /** Status of a successful response. Undefined if the status is the same as for a plain request. */
  readonly status?: number;
  /** True if each request has another idempotency key, also if its body was sent before. */
  readonly hasNewKey?: true;
  /** True if the same key and body are sent again. */
  readonly isReplay?: true;
  readonly isCompressed?: true;
  /** True if all events of a request are of one session. */
  readonly hasOneSession?: true;
  /** Switches of the project. */
  readonly switches?: readonly object[];
  /** True if each session has an open report. */
  readonly hasReports?: true;
  /** Maximum ratio to the cost of a plain request. */
  readonly toReach?: number;
  /** Events per request for which the maximum applies. Undefined if the maximum applies to each row. */
  readonly judgedEvents?: number;
}

const LENIENT = { headers: ['Prefer: handling=lenient'], status: 207 } as const;
const reason = 'the benchmark';

const DEFINED = {
  keyed: { title: 'a new `Idempotency-Key`', hasNewKey: true, toReach: 1.25 },
  replay: { title: 'a replay', isReplay: true, status: 200, toReach: 1.5 },
  lenient: { title: '`Prefer: handling=lenient`', ...LENIENT, toReach: 1.25 },
  client: {
    title: '`@questlog/client`: a new key, lenient, one session',
    ...LENIENT,
    hasNewKey: true,
    hasOneSession: true,
  },
  gzip: { title: 'gzip', isCompressed: true, toReach: 1.3, judgedEvents: 500 },
  switch: {
    title: 'a switch that matches no event',
    switches: [{ action: 'reject', eventType: 'unused', reason }],
    toReach: 1.15,
  },
  sampled: {
    title: 'a switch that samples half of the sessions',
    switches: [{ action: 'sample', sampleRate: 0.5, reason }],
  },
  report: { title: 'an open report for each session', hasReports: true, toReach: 1.15 },
} satisfies Record<string, RequestKind>;

export type KindName = keyof typeof DEFINED;
export const KINDS: Readonly<Record<KindName, RequestKind>> = DEFINED;
export const KIND_NAMES = Object.keys(DEFINED) as KindName[];

export const PLAIN: RequestKind = { title: 'plain' };

const KEY = 'Idempotency-Key: ';
/** Position in a UUID of the twelve digits that a new key replaces. */
const DIGITS_AT = 24;

/** @param body body of a plain request */
export function requestOfKind(
  { headers = [], hasNewKey, isReplay, isCompressed }: RequestKind,
  url: string,
  token: string,
  body: Buffer,
): Buffer {
  const lines = [...headers];
  if (hasNewKey || isReplay) lines.push(KEY + aKey());
  if (isCompressed) lines.push('Content-Encoding: gzip');
  return requestOf(url, token, isCompressed ? gzipSync(body) : body, lines);
}

/** Replaces random digits of the request's key, which costs less than building another request. */
export function renewKey(request: Uint8Array): void {
  const bytes = Buffer.from(request.buffer, request.byteOffset, request.length);
  const at = bytes.indexOf(KEY) + KEY.length + DIGITS_AT;
  bytes.write(randomUUID().slice(DIGITS_AT), at, 'latin1');
}
