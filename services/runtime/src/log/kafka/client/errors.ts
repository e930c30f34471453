/** Tells the kinds of failure of kafkajs apart: fenced, a wrong request or setting, or the brokers being away. */
import { Fenced, messageOf, Unavailable } from '../../../process/errors.ts';

/** Translates a failure of the brokers for the callers of the log. Our own failures and bugs pass as they are. */
export function toLogError(error: unknown, action: string): Error {
  if (error instanceof Fenced || error instanceof Unavailable || isOurBug(error)) return error;
  const types = errorTypesOf(error);
  const message = `${action}: ${messageOf(error)}`;
  if (types.some((type) => FENCED_ERRORS.has(type))) return new Fenced(message, { cause: error });
  if (types.some((type) => PERMANENT_ERRORS.has(type))) return new Error(message, { cause: error });
  return new Unavailable(message, { cause: error });
}

/** True when the brokers answered so, under however many wrappers of kafkajs. */
export function hasErrorType(error: unknown, ...types: readonly string[]): boolean {
  return errorTypesOf(error).some((type) => types.includes(type));
}

/** Failures that refuse the start of a process: the settings are wrong. */
export function isSettingsError(error: unknown): boolean {
  return hasErrorType(error, ...PERMANENT_ERRORS) || isCredentialsError(error);
}

export function isCredentialsError(error: unknown): boolean {
  return hasErrorType(error, ...CREDENTIALS_ERRORS);
}

/**
 * True of what JavaScript throws for a wrong program, where the program is ours: to try again would hide it. kafkajs throws
 * the same kinds when the brokers go away under it (an answer cut short is a `RangeError`), and Node when a socket does.
 */
function isOurBug(error: unknown): error is Error {
  if (!BUG_ERRORS.some((kind) => error instanceof kind)) return false;
  const frames = (error as Error).stack?.split('\n').filter((line) => line.startsWith('    at ')) ?? [];
  const throwingFrame = frames.find((frame) => !NODE_FRAME.test(frame));
  return throwingFrame !== undefined && !KAFKAJS_FRAME.test(throwingFrame);
}

const BUG_ERRORS = [TypeError, RangeError, ReferenceError];
const NODE_FRAME = /node:|<anonymous>/;
const KAFKAJS_FRAME = /[\\/]node_modules[\\/]kafkajs[\\/]/;

const FENCED_ERRORS = new Set(['INVALID_PRODUCER_EPOCH', 'PRODUCER_FENCED', 'FENCED_INSTANCE_ID']);

/** A failure that no other try will repair. */
const PERMANENT_ERRORS = new Set([
  'INVALID_TOPIC_EXCEPTION',
  'TOPIC_AUTHORIZATION_FAILED',
  'GROUP_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'TRANSACTIONAL_ID_AUTHORIZATION_FAILED',
]);

/** While it runs, a process outlives these: the server that gives its tokens may be away. */
const CREDENTIALS_ERRORS = [
  'SASL_AUTHENTICATION_FAILED',
  'UNSUPPORTED_SASL_MECHANISM',
  'ILLEGAL_SASL_STATE',
  'KafkaJSSASLAuthenticationError',
];

/** Codes newer than kafkajs, which it knows only by number. */
const NEWER_CODES = new Map([['Unknown error code 90', 'PRODUCER_FENCED']]);

/** The protocol's names of the error and its causes; kafkajs's own where it has none. */
function errorTypesOf(error: unknown): string[] {
  const types: string[] = [];
  let current = error;
  for (let depth = 0; current instanceof Error && depth < MAX_CAUSES; depth += 1) {
    const newer = NEWER_CODES.get(current.message);
    if (newer !== undefined) types.push(newer);
    if ('type' in current && typeof current.type === 'string') types.push(current.type);
    types.push(current.name);
    current = current.cause;
  }
  return types;
}

const MAX_CAUSES = 8;
