/** Tests how counts are written to ClickHouse, including while ClickHouse is unavailable. */
import type { Insert } from '@questlog/runtime/clickhouse/store';
import { Invalid, Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openRejections, type RejectedRequest } from './rejections.ts';

beforeEach(() => void vi.useFakeTimers({ now: Date.UTC(2026, 10, 22, 12) }));
afterEach(() => void vi.useRealTimers());

const FLUSH_MS = 2_000;

function aStart() {
  const inserts: Insert[] = [];
  const closers: (() => Promise<void> | void)[] = [];
  const state = { failure: undefined as Error | undefined, dropped: 0 };
  const rejects = openRejections({
    store: {
      insert: async (insert) => {
        inserts.push(insert);
        if (state.failure !== undefined) throw state.failure;
      },
    },
    clock: { now: () => Date.now() },
    logger: silentLogger,
    lifecycle: { onStop: (_, close) => closers.push(close) },
    dropped: {
      inc: (by) => {
        state.dropped += by;
      },
    },
  });
  return { rejects, inserts, state, stop: () => closers[0]?.() };
}

function aRequest(of: Partial<RejectedRequest> = {}): RejectedRequest {
  return {
    ...{
      principal: undefined,
      endpoint: 'POST /v1/ingest/events',
      token: '',
      body: undefined,
      failedAt: undefined,
    },
    rejections: [{ kind: 'rejected', code: 'field_type', index: 0, pointer: '/payload' }],
    ...of,
  };
}

test('writes the rejections of many requests in one insert, and writes nothing without rejections', async () => {
  const { rejects, inserts } = aStart();
  for (let request = 0; request < 50; request++) rejects.record(aRequest());
  await vi.advanceTimersByTimeAsync(FLUSH_MS);
  await vi.advanceTimersByTimeAsync(10 * FLUSH_MS);

  expect(inserts.map(({ table }) => table)).toEqual(['reject_counts']);
});

test('retries the same insert with its token while ClickHouse is unavailable, and then inserts the later counts', async () => {
  const { rejects, inserts, state } = aStart();
  state.failure = new Unavailable('away');
  rejects.record(aRequest());
  await vi.advanceTimersByTimeAsync(FLUSH_MS);
  rejects.record(aRequest({ endpoint: 'POST /v1/ingest/reports' }));
  await vi.advanceTimersByTimeAsync(FLUSH_MS);
  state.failure = undefined;
  await vi.advanceTimersByTimeAsync(2 * FLUSH_MS);

  const [first, ...others] = inserts;
  expect(others.map((insert) => insert === first)).toEqual([true, true, false]);
  expect(others.at(-1)?.deduplicationToken).not.toBe(first?.deduplicationToken);
  expect(String(others.at(-1)?.rows)).toContain('POST /v1/ingest/reports');
  expect(state.dropped).toBe(0);
});

test('drops an insert that ClickHouse rejects, and counts it as dropped', async () => {
  const { rejects, inserts, state } = aStart();
  state.failure = new Invalid('not of this table');
  rejects.record(aRequest());
  rejects.record(aRequest());
  await vi.advanceTimersByTimeAsync(3 * FLUSH_MS);

  expect(state.dropped).toBe(2);
  expect(inserts).toHaveLength(1);
});

test('counts rejections beyond the limits as dropped while ClickHouse is unavailable', async () => {
  const { rejects, state } = aStart();
  state.failure = new Unavailable('away');
  rejects.record(aRequest());
  await vi.advanceTimersByTimeAsync(60_000);
  for (let minute = 0; minute < 5; minute++) {
    const names = Array.from({ length: 100 }, (_, n) => `name${'x'.repeat(n)}`);
    const of = (name: string) =>
      ({ kind: 'ignored', code: 'field_unknown', index: 0, pointer: `/${name}` }) as const;
    rejects.record(aRequest({ rejections: names.map(of) }));
    await vi.advanceTimersByTimeAsync(60_000);
  }

  // A project has at most 400 rows in memory. One of these rows is being inserted.
  expect(state.dropped).toBe(101);
});

test('does not count requests to unknown paths without a token', async () => {
  const { rejects, inserts } = aStart();
  rejects.record(aRequest({ endpoint: '' }));
  await vi.advanceTimersByTimeAsync(FLUSH_MS);
  expect(inserts).toEqual([]);

  rejects.record(aRequest({ endpoint: '', token: 'qlt_a' }));
  await vi.advanceTimersByTimeAsync(FLUSH_MS);
  expect(inserts).toHaveLength(1);
});

test('writes the remaining counts when the service stops', async () => {
  const { rejects, inserts, stop } = aStart();
  rejects.record(aRequest());
  await stop();
  await vi.advanceTimersByTimeAsync(10 * FLUSH_MS);

  expect(inserts).toHaveLength(1);
});

test('searches the body of a request at most ten times', async () => {
  const { rejects, inserts } = aStart();
  const names = Array.from({ length: 15 }, (_, n) => `name${String.fromCharCode(97 + n)}`);
  const body = Buffer.from(JSON.stringify(Object.fromEntries(names.map((name) => [name, 'in sight']))));
  const of = (name: string) =>
    ({ kind: 'ignored', code: 'field_unknown', index: 0, pointer: `/${name}` }) as const;
  rejects.record(aRequest({ body, rejections: names.map(of) }));
  await vi.advanceTimersByTimeAsync(FLUSH_MS);

  expect(String(inserts[0]?.rows).split('"in sight"')).toHaveLength(11);
});

test('an error while counting does not affect the response', () => {
  const { rejects } = aStart();
  const broken = { ...aRequest(), rejects: undefined } as unknown as RejectedRequest;

  expect(() => rejects.record(broken)).not.toThrow();
});
