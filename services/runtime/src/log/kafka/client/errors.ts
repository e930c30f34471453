/** Classifies the errors of kafkajs: fenced producers, invalid requests or settings, and unavailable brokers. */
import { Fenced, messageOf, Unavailable } from '../../../process/errors.ts';

/** Converts a kafkajs error to an error of the log's interface. Returns Questlog's own errors unchanged. */
export function toLogError(error: unknown, action: string): Error {
  if (error instanceof Fenced || error instanceof Unavailable || isOurBug(error)) return error;
  const types = errorTypesOf(error);
  const message = `${action}: ${messageOf(error)}`;
  if (types.some((type) => FENCED_ERRORS.has(type))) return new Fenced(message, { cause: error });
  if (types.some((type) => PERMANENT_ERRORS.has(type))) return new Error(message, { cause: error });
  return new Unavailable(message, { cause: error });
}

/** Returns true if the error or one of its causes has one of the Kafka error types, for example `PRODUCER_FENCED`. */
export function hasErrorType(error: unknown, ...types: readonly string[]): boolean {
  return errorTypesOf(error).some((type) => types.includes(type));
}

/** Returns true for an error that only a change of the settings can fix. Such an error stops the start of a process. */
export function isSettingsError(error: unknown): boolean {
  return hasErrorType(error, ...PERMANENT_ERRORS) || isCredentialsError(error);
}

export function isCredentialsError(error: unknown): boolean {
  return hasErrorType(error, ...CREDENTIALS_ERRORS);
}

/**
 * Returns true for an error such as a `TypeError` that Questlog's own code threw. A retry would hide such a bug. kafkajs throws
 * the same types after network failures, for example a `RangeError` for a truncated response, so the stack trace is checked.
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

const PERMANENT_ERRORS = new Set([
  'INVALID_TOPIC_EXCEPTION',
  'TOPIC_AUTHORIZATION_FAILED',
  'GROUP_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'TRANSACTIONAL_ID_AUTHORIZATION_FAILED',
]);

/** At the start, an authentication error ends the process. A running process retries, because a token server can be down. */
const CREDENTIALS_ERRORS = [
  'SASL_AUTHENTICATION_FAILED',
  'UNSUPPORTED_SASL_MECHANISM',
  'ILLEGAL_SASL_STATE',
  'KafkaJSSASLAuthenticationError',
];

/** kafkajs has no name for the error codes in this map. */
const NEWER_CODES = new Map([['Unknown error code 90', 'PRODUCER_FENCED']]);

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
