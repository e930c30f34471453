/** What a command prints and how long it waits while Questlog does not answer. The clock is moved by hand. */
import { Unavailable } from '@questlog/runtime/process/errors';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Progress } from './print.ts';
import { Endpoint } from './reach.ts';

// The faked timers leave out this module.
vi.mock('node:timers/promises', () => ({
  setTimeout: (ms: number) => new Promise((resolve) => setTimeout(resolve, ms)),
}));

const NO_ANSWER = 'Questlog does not answer at http://127.0.0.1:9; is it running?';

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(process.stderr, 'write').mockReturnValue(true);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test('waits for a restart of half a minute and reports it in a few lines', async () => {
  const endpoint = awayFor(30_000);
  const requests = Array.from({ length: 64 }, () => endpoint.retried('POST', '/', {}));
  await vi.advanceTimersByTimeAsync(40_000);

  const statuses = (await Promise.all(requests)).map(({ status }) => status);
  expect(new Set(statuses)).toEqual(new Set([200]));
  const again = `${NO_ANSWER}; trying again for up to 60 s`;
  expect(printed()).toEqual([
    ...[again, again, again],
    expect.stringMatching(/^Questlog answers again after 3\d\.\d s$/),
  ]);
});

test('gives up a minute after the first failure', async () => {
  const startedMs = performance.now();
  const gaveUp = awayFor(Number.POSITIVE_INFINITY)
    .retried('POST', '/', {})
    .catch((error: unknown) => [error, performance.now() - startedMs]);
  await vi.advanceTimersByTimeAsync(90_000);

  const [error, afterMs] = (await gaveUp) as [unknown, number];
  expect(error).toBeInstanceOf(Unavailable);
  expect(afterMs).toBeGreaterThanOrEqual(60_000);
  expect(afterMs).toBeLessThan(70_000);
});

test('prints the progress every five seconds without a terminal', () => {
  const progress = new Progress();
  for (let second = 1; second <= 12; second++) {
    vi.advanceTimersByTime(1_000);
    progress.show(`${second} events`);
  }

  expect(printed()).toEqual(['5 events', '10 events']);
});

function printed(): string[] {
  return vi.mocked(process.stderr.write).mock.calls.map(([text]) => String(text).trimEnd());
}

/** An endpoint that nothing listens at for so long. */
function awayFor(ms: number): Endpoint {
  const endpoint = new Endpoint('http://127.0.0.1:9', 'token');
  const backMs = performance.now() + ms;
  vi.spyOn(endpoint, 'request').mockImplementation(async () => {
    if (performance.now() < backMs) throw new Unavailable(NO_ANSWER);
    return new Response();
  });
  return endpoint;
}
