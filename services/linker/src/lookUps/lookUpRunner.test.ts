/** Tests how the runner adds the answer of a lookup to the outbox. */

import { Unavailable } from '@questlog/runtime/process/errors';
import { silentLogger } from '@questlog/runtime/process/logger';
import { anEvent, aReportLink } from '@questlog/schemas/fixtures/builders';
import { expect, onTestFinished, test, vi } from 'vitest';
import { type Decision, keyOf } from '../core/decision.ts';
import type { Answer, JobOf } from '../core/jobs.ts';
import { LINKER_BOUNDS, LinkerState } from '../core/linkerState.ts';
import type { PartitionDeps } from '../deps.ts';
import type { Outbox } from '../outbox.ts';
import { LookUpRunner } from './lookUpRunner.ts';
import type { LookUp, LookUps } from './lookUps.ts';

test('new links of a lookup are counted in addition to links that the state had not counted', async () => {
  const state = new LinkerState(0, 1, LINKER_BOUNDS);
  const record = aReportLink({ maxSessionLinks: 2 });
  const key = keyOf(record);
  const value = { record, offset: 0, phase: 'open', askAt: 0, closesAt: Number.MAX_SAFE_INTEGER } as const;
  state.evolve([{ entry: 'report', key, value }]);
  const event = { ...anEvent(), receivedAt: 1 };
  const found = [{ key, record, event, source: 'session' }] as const;
  const seen = { found, isComplete: true, missing: new Map(), linkCounts: new Map([[key, 1]]), below: 1 };
  const lookUps = {
    answer: async ({ job }: LookUp): Promise<Answer> => ({ ...(job as JobOf<'ask'>), ...seen }),
  } as unknown as LookUps;
  const deps = { clock: { now: () => 1 }, log: { id: 'log' } } as unknown as PartitionDeps;
  const runner = new LookUpRunner(deps, anOutbox(state), lookUps);

  await runner.next();
  await runner.next();
  expect(state.sessionLinks.get(key)).toBe(2);
});

/** Returns a runner with one report to check, a function that waits, and a function that ends the running lookup. */
function aWaitingRunner() {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const state = new LinkerState(0, 1, LINKER_BOUNDS);
  const record = aReportLink();
  const key = keyOf(record);
  const value = { record, offset: 0, phase: 'waiting', askAt: null, closesAt: 0 } as const;
  state.evolve([{ entry: 'report', key, value }]);
  let answer = Promise.withResolvers<Answer>();
  const lookUps = { answer: () => answer.promise } as unknown as LookUps;
  const metrics = { failedLookUps: { inc: () => {} } };
  const deps = { clock: { now: () => 1 }, log: { id: 'log' }, logger: silentLogger, metrics };
  const runner = new LookUpRunner(deps as unknown as PartitionDeps, anOutbox(state), lookUps);
  const later = async (ms: number): Promise<number> => {
    vi.advanceTimersByTime(ms);
    await runner.next();
    return runner.waitingMs;
  };
  const fail = async (): Promise<void> => {
    answer.reject(new Unavailable('ClickHouse is down'));
    await answer.promise.catch(() => {});
    answer = Promise.withResolvers();
  };
  const succeed = async (): Promise<void> => {
    answer.resolve({ kind: 'check', reports: new Map([[key, value]]), projected: new Map() });
    await answer.promise;
  };
  return { later, fail, succeed, erase: () => state.evolve([{ entry: 'report', key, value: null }]) };
}

// The number of failures did not grow while ClickHouse did not answer at all, so that no alert fired.
test('the wait of a lookup grows while ClickHouse does not answer, and from the first failure until an answer', async () => {
  const { later, fail, succeed } = aWaitingRunner();
  expect(await later(1_000)).toBe(0);
  expect(await later(40_000)).toBe(40_000);
  await fail();
  expect(await later(0)).toBe(0);
  expect(await later(60_000)).toBe(60_000);
  await succeed();
  expect(await later(0)).toBe(0);
});

test('no lookup waits after the report of a failed lookup was erased', async () => {
  const { later, fail, erase } = aWaitingRunner();
  await later(0);
  await fail();
  await later(0);
  erase();
  expect(await later(60_000)).toBe(0);
});

/** Returns an outbox that keeps the state but commits nothing. */
function anOutbox(state: LinkerState): Outbox {
  const put = ({ links, changes }: Decision): void => {
    state.evolve(changes);
    for (const link of links) state.countLink(link);
  };
  return { state, put, isFull: false, pendingMs: () => 0, commit: async () => {} } as unknown as Outbox;
}
