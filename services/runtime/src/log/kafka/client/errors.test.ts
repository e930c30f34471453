/** Errors of kafkajs that the callers of the log receive. */
import { createRequire } from 'node:module';
import kafkajs from 'kafkajs';
import { expect, test } from 'vitest';
import { Fenced, Unavailable } from '../../../process/errors.ts';
import { hasErrorType, isSettingsError, toLogError } from './errors.ts';

const protocol = (type: string, message = 'said so') =>
  new kafkajs.KafkaJSProtocolError({ type, message, name: type, code: 1, retriable: false } as Error);
const retried = (cause: Error) =>
  new kafkajs.KafkaJSNumberOfRetriesExceeded(cause, { retryCount: 5, retryTime: 10 });

test.each([
  ['a newer producer', protocol('INVALID_PRODUCER_EPOCH'), Fenced],
  ['a newer producer in a code that kafkajs does not know', protocol('X', 'Unknown error code 90'), Fenced],
  ['a newer producer after retries', retried(protocol('INVALID_PRODUCER_EPOCH')), Fenced],
  ['a leader that moves', protocol('NOT_LEADER_FOR_PARTITION'), Unavailable],
  ['a lost connection', new kafkajs.KafkaJSConnectionError('gone'), Unavailable],
  ['a lost connection after retries', retried(new kafkajs.KafkaJSConnectionError('gone')), Unavailable],
  ['rejected credentials at run time', refusedCredentials(), Unavailable],
  ['a missing permission', protocol('TOPIC_AUTHORIZATION_FAILED'), Error],
])('%s', (_, error, kind) => {
  const failure = toLogError(error, 'the append');
  expect(failure.constructor).toBe(kind);
  expect(failure.message).toContain('the append');
  expect(failure.cause).toBe(error);
});

test('returns errors of Questlog unchanged', () => {
  for (const failure of [new Fenced('lost'), new Unavailable('closed')]) {
    expect(toLogError(failure, 'the append')).toBe(failure);
  }
});

test.each([
  ['a property of undefined', () => (undefined as unknown as { key: string }).key],
  ['a buffer read past its end', () => Buffer.alloc(2).readInt32BE(0)],
  ['a variable used before its initialization', readTooEarly],
])('returns a bug of Questlog unchanged: %s', (_, bug) => {
  const error = thrownBy(bug);
  expect(toLogError(error, 'the append')).toBe(error);
});

test('treats errors of kafkajs during a disconnect as an outage', () => {
  const decoder = createRequire(import.meta.url)('kafkajs/src/protocol/decoder.js');
  const error = thrownBy(() => new decoder(Buffer.alloc(2)).readInt32());
  expect(error).toBeInstanceOf(RangeError);
  expect(toLogError(error, 'the append')).toBeInstanceOf(Unavailable);
});

test('treats socket errors of Node as an outage', () => {
  const error = new RangeError('of a socket');
  error.stack = 'RangeError: of a socket\n    at Socket.write (node:net:1:1)';
  expect(toLogError(error, 'the append')).toBeInstanceOf(Unavailable);
});

test('recognizes wrong settings in a converted error', () => {
  const rejected = refusedCredentials();
  expect(isSettingsError(toLogError(rejected, 'the connection'))).toBe(true);
  expect(isSettingsError(toLogError(new kafkajs.KafkaJSConnectionError('gone'), 'the connection'))).toBe(
    false,
  );
  expect(hasErrorType(retried(protocol('MESSAGE_TOO_LARGE')), 'MESSAGE_TOO_LARGE')).toBe(true);
});

function readTooEarly(): number {
  const read = () => later;
  read();
  const later = 1;
  return later;
}

function thrownBy(bug: () => unknown): unknown {
  try {
    bug();
  } catch (error) {
    return error;
  }
  throw new Error('it did not throw');
}

function refusedCredentials(): Error {
  // The message parameter of the constructor is missing in kafkajs's types.
  const name = 'KafkaJSSASLAuthenticationError';
  return Object.assign(new kafkajs.KafkaJSNonRetriableError('no'), { name });
}
