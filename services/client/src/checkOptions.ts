/** Checks the options that a game passes to `start`, before the client sends a request. */
import type { GameOptions } from './gameOptions.ts';
import { PAGE } from './page.ts';

const CHANNELS = ['dev', 'qa', 'alpha', 'beta', 'staging', 'prod'];
/** Revision A of the API allows 500 events per request, and revision B allows 200. */
const MAX_BATCH_EVENTS = 500;

type Rule = readonly [isValid: (value: unknown) => boolean, expected: string];

const ADDRESS: Rule = [isAddress, 'an address such as https://telemetry.your-game.example'];
const TOKEN: Rule = [(value) => /^[\x21-\x7e]+$/.test(textOf(value)), 'an access token'];
const OBJECT: Rule = [(value) => typeof value === 'object' && !Array.isArray(value), 'an object'];
const TEXT: Rule = [(value) => typeof value === 'string' || value === null, 'a string'];
const NEEDED: Rule = [(value) => textOf(value) !== '', 'a string that is not empty'];
const FUNCTION: Rule = [(value) => typeof value === 'function', 'a function'];
const AMOUNT: Rule = [(value) => Number.isFinite(value) && Number(value) >= 0, 'a number of at least 0'];

/** @throws TypeError that names the first invalid option. */
export function checkOptions(options: GameOptions): void {
  if (!isObject(options)) throw wrong('options', 'an object');
  need(options, 'url', ADDRESS);
  need(options, 'token', TOKEN);
  for (const name of ['build', 'player', 'metadata']) allow(options, name, OBJECT);
  allow(options, 'queue', [isObject, 'an object such as indexedDbQueue()']);
  const { build, player, queue } = options;
  if (isObject(build)) {
    for (const name of ['version', 'platform']) need(build, name, NEEDED, 'build.');
    allow(build, 'gitCommit', TEXT, 'build.');
    allow(build, 'channel', oneOf(['', ...CHANNELS]), 'build.');
  }
  if (isObject(player)) for (const name of ['externalId', 'deviceId']) allow(player, name, TEXT, 'player.');
  if (isObject(queue)) for (const name of ['open', 'write', 'close']) need(queue, name, FUNCTION, 'queue.');
  allow(options, 'consent', oneOf(['required']));
  for (const name of ['maxQueueBytes', 'flushIntervalMs', 'endWithinMs']) allow(options, name, AMOUNT);
  allow(options, 'maxBatchEvents', [isBatchSize, `a whole number from 1 to ${MAX_BATCH_EVENTS}`]);
  for (const name of ['onProblem', 'fetch']) allow(options, name, FUNCTION);
}

function allow(object: object, name: string, rule: Rule, prefix = ''): void {
  if (Reflect.get(object, name) !== undefined) need(object, name, rule, prefix);
}

function need(object: object, name: string, [isValid, expected]: Rule, prefix = ''): void {
  if (!isValid(Reflect.get(object, name))) throw wrong(prefix + name, expected);
}

function wrong(name: string, expected: string): TypeError {
  return new TypeError(`start: ${name} must be ${expected}`);
}

/** Accepts a URL or a path. Rejects a user name, a query, and a fragment, because the client appends `/v1/ingest`. */
function isAddress(value: unknown): boolean {
  const text = textOf(value);
  try {
    const url = new URL(text, text.startsWith('/') ? PAGE.location?.href : undefined);
    return /^https?:$/.test(url.protocol) && url.username === '' && !/[?#]/.test(text);
  } catch {
    return false;
  }
}

function isBatchSize(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= MAX_BATCH_EVENTS;
}

function oneOf(values: readonly string[]): Rule {
  return [(value) => values.includes(textOf(value)), `one of ${values.filter(Boolean).join(', ')}`];
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
