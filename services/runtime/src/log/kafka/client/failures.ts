/** Tells the kinds of failure of kafkajs apart: fenced, a wrong request or setting, or the brokers being away. */
import { Fenced, messageOf, Unavailable } from '../../../process/errors.ts';

/** Translates a failure of the brokers for the callers of the log. Our own failures and bugs pass as they are. */
export function asFailure(error: unknown, doing: string): Error {
  if (error instanceof Fenced || error instanceof Unavailable || isOurBug(error)) return error;
  const types = typesOf(error);
  const message = `${doing}: ${messageOf(error)}`;
  if (types.some((type) => FENCED.has(type))) return new Fenced(message, { cause: error });
  if (types.some((type) => WRONG.has(type))) return new Error(message, { cause: error });
  return new Unavailable(message, { cause: error });
}

/** True when the brokers answered so, under however many wrappers of kafkajs. */
export function isOfType(error: unknown, ...types: readonly string[]): boolean {
  return typesOf(error).some((type) => types.includes(type));
}

/** Failures that refuse the start of a process: the settings are wrong. */
export function isOfSettings(error: unknown): boolean {
  return isOfType(error, ...WRONG) || isOfCredentials(error);
}

export function isOfCredentials(error: unknown): boolean {
  return isOfType(error, ...CREDENTIALS);
}

/**
 * True of what JavaScript throws for a wrong program, where the program is ours: to try again would hide it. kafkajs throws
 * the same kinds when the brokers go away under it (an answer cut short is a `RangeError`), and Node when a socket does.
 */
function isOurBug(error: unknown): error is Error {
  if (!OF_BUGS.some((kind) => error instanceof kind)) return false;
  const frames = (error as Error).stack?.split('\n').filter((line) => line.startsWith('    at ')) ?? [];
  const thrower = frames.find((frame) => !OF_NODE.test(frame));
  return thrower !== undefined && !OF_KAFKAJS.test(thrower);
}

const OF_BUGS = [TypeError, RangeError, ReferenceError];
const OF_NODE = /node:|<anonymous>/;
const OF_KAFKAJS = /[\\/]node_modules[\\/]kafkajs[\\/]/;

const FENCED = new Set(['INVALID_PRODUCER_EPOCH', 'PRODUCER_FENCED', 'FENCED_INSTANCE_ID']);

/** A failure that no other try will repair. */
const WRONG = new Set([
  'INVALID_TOPIC_EXCEPTION',
  'TOPIC_AUTHORIZATION_FAILED',
  'GROUP_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'TRANSACTIONAL_ID_AUTHORIZATION_FAILED',
]);

/** While it runs, a process outlives these: the server that gives its tokens may be away. */
const CREDENTIALS = [
  'SASL_AUTHENTICATION_FAILED',
  'UNSUPPORTED_SASL_MECHANISM',
  'ILLEGAL_SASL_STATE',
  'KafkaJSSASLAuthenticationError',
];

/** Codes newer than kafkajs, which it knows only by number. */
const NEWER_CODES = new Map([['Unknown error code 90', 'PRODUCER_FENCED']]);

/** The protocol's names of the error and its causes; kafkajs's own where it has none. */
function typesOf(error: unknown): string[] {
  const types: string[] = [];
  let at = error;
  for (let depth = 0; at instanceof Error && depth < MAX_CAUSES; depth += 1) {
    const newer = NEWER_CODES.get(at.message);
    if (newer !== undefined) types.push(newer);
    if ('type' in at && typeof at.type === 'string') types.push(at.type);
    types.push(at.name);
    at = at.cause;
  }
  return types;
}

const MAX_CAUSES = 8;
