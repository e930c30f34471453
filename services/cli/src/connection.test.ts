/** Tests the output and the waiting time of a command while Questlog does not answer. Each request advances a fake clock. */
import { Unavailable } from '@questlog/runtime/process/errors';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type GameEndpoint, gameEndpoint } from './connection.ts';
import { Progress } from './print.ts';

const NO_ANSWER = 'Questlog does not answer at http://127.0.0.1:9; is it running?';

let nowMs: number;

beforeEach(() => {
  nowMs = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  vi.spyOn(process.stderr, 'write').mockReturnValue(true);
});
afterEach(() => {
  vi.restoreAllMocks();
});

test('waits for a restart of half a minute and reports it in a few lines', async () => {
  const endpoint = awayFor(30_000, 250);
  const requests = Array.from({ length: 64 }, () => endpoint.retried('createEvents'));

  const statuses = (await Promise.all(requests)).map(({ status }) => status);
  expect(new Set(statuses)).toEqual(new Set([200]));
  const lines = printed();
  expect(lines.pop()).toMatch(/^Questlog answers again after \d+\.\d s$/);
  expect(new Set(lines)).toEqual(new Set([`${NO_ANSWER}; retrying for up to 60 s`]));
  expect(lines.length).toBeLessThanOrEqual(4);
});

test('gives up a minute after the first failure', async () => {
  const endpoint = awayFor(Number.POSITIVE_INFINITY, 21_000);

  await expect(endpoint.retried('createEvents')).rejects.toThrow(Unavailable);
  expect(nowMs).toBe(4 * 21_000);
});

test('prints the progress every five seconds without a terminal', () => {
  const progress = new Progress();
  for (let second = 1; second <= 12; second++) {
    nowMs += 1_000;
    progress.show(`${second} events`);
  }

  expect(printed()).toEqual(['5 events', '10 events']);
});

function printed(): string[] {
  return vi.mocked(process.stderr.write).mock.calls.map(([text]) => String(text).trimEnd());
}

/** Returns an endpoint that does not answer for `ms` milliseconds. Each request advances the clock by `requestMs`. */
function awayFor(ms: number, requestMs: number): GameEndpoint {
  const endpoint = gameEndpoint('http://127.0.0.1:9', 'token');
  vi.spyOn(endpoint, 'request').mockImplementation(async () => {
    nowMs += requestMs;
    if (nowMs < ms) throw new Unavailable(NO_ANSWER);
    return new Response();
  });
  return endpoint;
}
