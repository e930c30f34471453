/** Classifies errors of kafkajs. The classes are a fenced producer, an invalid request or setting, and unavailable brokers. */
import { Fenced, messageOf, Unavailable } from '../../../process/errors.ts';

/** Converts a kafkajs error to an error of the log port. Returns errors and bugs of Questlog unchanged. */
export function toLogError(error: unknown, action: string): Error {
  if (error instanceof Fenced || error instanceof Unavailable || isOurBug(error)) return error;
  const types = errorTypesOf(error);
  const message = `${action}: ${messageOf(error)}`;
  if (types.some((type) => FENCED_ERRORS.has(type))) return new Fenced(message, { cause: error });
  if (types.some((type) => PERMANENT_ERRORS.has(type))) return new Error(message, { cause: error });
  return new Unavailable(message, { cause: error });
}

/** Returns true if the error or one of its causes has one of the Kafka error types. */
export function hasErrorType(error: unknown, ...types: readonly string[]): boolean {
  return errorTypesOf(error).some((type) => types.includes(type));
}

/** Returns true for errors that only other settings can fix. They stop the start of a process. */
export function isSettingsError(error: unknown): boolean {
  return hasErrorType(error, ...PERMANENT_ERRORS) || isCredentialsError(error);
}

export function isCredentialsError(error: unknown): boolean {
  return hasErrorType(error, ...CREDENTIALS_ERRORS);
}

/**
 * Returns true for a `TypeError`, `RangeError`, or `ReferenceError` of Questlog's own code. A retry would hide such a bug.
 * kafkajs throws the same error types when a broker disconnects: a truncated response is a `RangeError`. Node throws these
 * error types if a socket fails.
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

/** Errors that a retry cannot fix. */
const PERMANENT_ERRORS = new Set([
  'INVALID_TOPIC_EXCEPTION',
  'TOPIC_AUTHORIZATION_FAILED',
  'GROUP_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'TRANSACTIONAL_ID_AUTHORIZATION_FAILED',
]);

/**
 * Authentication errors. They stop the start of a process. A running process retries, because the token server may be
 * unavailable.
 */
const CREDENTIALS_ERRORS = [
  'SASL_AUTHENTICATION_FAILED',
  'UNSUPPORTED_SASL_MECHANISM',
  'ILLEGAL_SASL_STATE',
  'KafkaJSSASLAuthenticationError',
];

/** Error codes for which kafkajs has no name. */
const NEWER_CODES = new Map([['Unknown error code 90', 'PRODUCER_FENCED']]);

/** Returns the Kafka error types of the error and its causes. For kafkajs errors, also returns their names. */
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
