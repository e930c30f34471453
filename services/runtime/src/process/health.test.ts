/** Tests that `/readyz` responds during an outage, even if a check fails or hangs. */
import { expect, test, vi } from 'vitest';
import { Unavailable } from './errors.ts';
import { createHealth } from './health.ts';

test('reports a check that throws or does not respond as a named problem, with the others', async () => {
  vi.useFakeTimers();
  try {
    const health = createHealth();
    health.check('fine', () => undefined);
    health.check('says', () => 'not moved');
    health.check('throws', () => Promise.reject(new Unavailable('no broker can be reached')));
    health.check('hangs', () => new Promise(() => {}));
    health.warn('away', () => 'ClickHouse does not answer');
    health.warn('silent', () => new Promise(() => {}));
    const state = health.state();
    await vi.runAllTimersAsync();
    expect(await state).toEqual({
      problems: { says: 'not moved', throws: 'no broker can be reached', hangs: 'no answer within 3 s' },
      warnings: { away: 'ClickHouse does not answer', silent: 'no answer within 0.5 s' },
    });
  } finally {
    vi.useRealTimers();
  }
});
