/** Appends that are sent as a group keep the order of the calls, the offset of each caller, and the limits. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { messageOf, Unavailable } from '../../../process/errors.ts';
import { aPause } from '../../../process/testing/aPause.ts';
import { yieldToEventLoop } from '../../../process/waiting.ts';
import type { NewRecord } from '../../log.ts';
import { AppendBudget, PartitionAppender } from './partitionAppender.ts';
import type { PartitionBatch } from './partitionProducer.ts';
import { SEND_LIMIT_MS } from './producers.ts';

test('has one send in flight', async () => {
  const { append, sends, isAlone } = aPartition();
  const appended = [append(records(0, 1), 10)];
  for (let call = 1; call < 20; call += 1) {
    await new Promise((resolve) => setImmediate(resolve));
    appended.push(append(records(call, 1), 10));
  }
  const offsets = (await Promise.all(appended)).map(({ baseOffset }) => baseOffset);
  expect(offsets).toEqual(offsets.map((_, call) => call));
  expect(sends.length).toBeGreaterThan(1);
  expect(isAlone()).toBe(true);
});

test('groups the appends that arrive during a send in the order of the calls', async () => {
  const { append, sends, isAlone } = aPartition();
  const appended = Array.from({ length: 50 }, (_, call) => append(records(call, 1 + (call % 3)), 10));
  let expected = 0;
  for (const [call, promise] of appended.entries()) {
    expect(await promise).toEqual({ baseOffset: expected });
    expected += 1 + (call % 3);
  }
  const late = await Promise.all([append(records(50, 1), 10), append(records(51, 1), 10)]);
  expect(late.map(({ baseOffset }) => baseOffset)).toEqual([expected, expected + 1]);
  expect(sends.flatMap((send) => send.records.map(({ key }) => key))).toEqual(
    Array.from({ length: 52 }, (_, call) =>
      records(call, call < 50 ? 1 + (call % 3) : 1).map(({ key }) => key),
    ).flat(),
  );
  expect(sends).toHaveLength(2);
  expect(isAlone()).toBe(true);
});

test('groups appends that follow a response with waiting appends', async () => {
  const { append, sends } = aPartition();
  const again = async (call: number) => {
    await append(records(call, 1), 10);
    await yieldToEventLoop();
    await append(records(call + 10, 1), 10);
  };
  const both = [again(0), again(1)];
  await turn();
  await Promise.all([...both, append(records(2, 1), 10)]);
  expect(sends.map((send) => send.records.map(({ key }) => key))).toEqual([
    ['0.0', '1.0'],
    ['2.0', '10.0', '11.0'],
  ]);
});

test('limits a send to the batch size of the topic and never splits an append', async () => {
  const { append, sends, isAlone } = aPartition({ maxSendBytes: 100 });
  const bytes = [40, 40, 40, 90, 10, 10, 100, 1];
  await Promise.all(bytes.map((size, call) => append(records(call, 2), size)));
  expect(sends.map((send) => send.records.length)).toEqual([4, 2, 4, 2, 2, 2]);
  expect(isAlone()).toBe(true);
});

test('limits the number of records in a send', async () => {
  const { append, sends } = aPartition();
  await Promise.all([6000, 4000, 1, 30_000].map((count, call) => append(records(call, count), count)));
  expect(sends.map((send) => send.records.length)).toEqual([10_000, 1, 30_000]);
});

test('rejects all appends of a rejected send and continues with the next', async () => {
  const { append, sends, failNext } = aPartition();
  failNext(new Unavailable('lost'));
  const first = [append(records(0, 1), 10), append(records(1, 1), 10)];
  const outcomes = Promise.allSettled(first);
  await turn();
  const second = append(records(2, 1), 10);
  expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await expect(first[0]).rejects.toThrow('lost');
  expect(await second).toEqual({ baseOffset: 0 });
  expect(sends).toHaveLength(2);
});

test('rejects appends above the limit of all partitions until memory is free again', async () => {
  const waiting = new AppendBudget(100);
  const [one, other] = [aPartition({ waiting }), aPartition({ waiting })];
  const taken = [one.append(records(0, 1), 60), other.append(records(1, 1), 40)];
  const rejected = one.append(records(2, 1), 1);
  await expect(rejected).rejects.toBeInstanceOf(Unavailable);
  await expect(rejected).rejects.toThrow('nothing was appended');
  await Promise.all(taken);
  // The append is larger than the limit, so it is sent alone.
  const large = one.append(records(3, 1), 500);
  await expect(other.append(records(4, 1), 1)).rejects.toBeInstanceOf(Unavailable);
  await large;
  await other.append(records(5, 1), 1);
  expect([...one.sends, ...other.sends].flatMap((send) => send.records.map(({ key }) => key)).sort()).toEqual(
    ['0.0', '1.0', '3.0', '5.0'],
  );
});

test('a partition whose sends hang leaves memory for the others', async () => {
  const waiting = new AppendBudget(100);
  const [failing, other, healthy] = [
    aPartition({ waiting }),
    aPartition({ waiting }),
    aPartition({ waiting }),
  ];
  failing.hang();
  other.hang();
  let rejected = 0;
  for (let call = 0; call < 20; call += 1) {
    for (const { append } of [failing, other]) append(records(call, 1), 10).catch(() => (rejected += 1));
  }
  await turn();
  expect(rejected).toBeGreaterThan(0);
  expect(await healthy.append(records(0, 1), 10)).toEqual({ baseOffset: 0 });
});

test('an append waits at most 16 s, in a hanging send or after it', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const waiting = new AppendBudget(100);
  const { append, hang, sends } = aPartition({ waiting });
  const goOn = hang();
  const outcomes: string[] = [];
  const noteError = (text: string) => (error: unknown) => void outcomes.push(`${text}: ${String(error)}`);
  append(records(0, 1), 10).catch(noteError('sent'));
  await turn();
  append(records(1, 1), 10).catch(noteError('behind'));
  vi.advanceTimersByTime(1000);
  const late = append(records(2, 1), 10);
  await turn();
  vi.advanceTimersByTime(15_000);
  await turn();
  expect(outcomes).toEqual([
    expect.stringMatching(/^sent: Unavailable: .*outcome is unknown/),
    expect.stringMatching(/^behind: Unavailable: .*nothing was appended/),
  ]);
  goOn();
  expect(await late).toEqual({ baseOffset: 1 });
  expect(sends.flatMap((send) => send.records.map(({ key }) => key))).toEqual(['0.0', '2.0']);
  expect(waiting.reserve(100, 0)).toBe(true);
});

test('each append has its own deadline of 16 s', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const { append, appender, hang, sends } = aPartition();
  await append(records(0, 1), 10);
  await appender.idle();
  expect(vi.getTimerCount()).toBe(0);
  const goOn = hang();
  const outcomes: number[] = [];
  for (const call of [1, 2, 3]) {
    append(records(call, 1), 10).catch(() => void outcomes.push(call));
    await turn();
    vi.advanceTimersByTime(1000);
  }
  const later: readonly [number, readonly number[]][] = [
    [12_999, []],
    [1, [1]],
    [1000, [1, 2]],
    [1000, [1, 2, 3]],
  ];
  for (const [ms, reported] of later) {
    vi.advanceTimersByTime(ms);
    await turn();
    expect(outcomes).toEqual(reported);
  }
  goOn();
  await appender.idle();
  expect(sends.flatMap((send) => send.records.map(({ key }) => key))).toEqual(['0.0', '1.0']);
  expect(vi.getTimerCount()).toBe(0);
});

test('a partition without a response for 2 s is limited and reported until it responds', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const { append, hang, sends, reported } = aPartition();
  const goOn = hang();
  const appended = [append(records(0, 1), 600_000)];
  await turn();
  appended.push(append(records(1, 1), 400_000));
  vi.advanceTimersByTime(1999);
  expect(reported).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(reported).toEqual(['failed: no answer yet']);
  await expect(append(records(2, 1), 100_000)).rejects.toMatchObject({
    name: 'Unavailable',
    message: expect.stringContaining('nothing was appended'),
    retryAfterS: 5,
  });
  appended.push(append(records(3, 1), 40_000));
  goOn();
  await Promise.all(appended);
  expect(reported).toEqual(['failed: no answer yet', 'passed']);
  await Promise.all([append(records(4, 1), 900_000), append(records(5, 1), 900_000)]);
  expect(sends.flatMap((send) => send.records.map(({ key }) => key))).toEqual(
    [0, 1, 3, 4, 5].map((call) => `${call}.0`),
  );
});

test('a late rejection ends the limits of a partition', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const { append, failNext, hang, reported } = aPartition();
  const goOn = hang();
  failNext(new Error('too large'));
  const rejected = append(records(0, 1), 10);
  await turn();
  vi.advanceTimersByTime(2000);
  goOn();
  await expect(rejected).rejects.toThrow('too large');
  expect(reported).toEqual(['failed: no answer yet', 'passed']);
});

test('a failing partition accepts a limited number of appends, and at least one', async () => {
  const { append, failNext, hang, sends } = aPartition();
  failNext(new Unavailable('lost'));
  await expect(append(records(0, 1), 10)).rejects.toThrow('lost');
  const goOn = hang();
  const first = append(records(1, 1), 3_000_000);
  await expect(append(records(2, 1), 10)).rejects.toMatchObject({ retryAfterS: 5 });
  goOn();
  await first;
  failNext(new Unavailable('lost again'));
  await expect(append(records(3, 1), 10)).rejects.toThrow('lost again');
  hang()();
  const outcomes = await Promise.allSettled(Array.from({ length: 1200 }, () => append(records(4, 1), 10)));
  expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(200);
  expect(sends.at(-1)?.records).toHaveLength(1000);
});

test('pauses with a backoff after failed sends, but not after rejected ones', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const pauses: number[] = [];
  const { append, failNext } = aPartition({ rest: async (ms) => void pauses.push(ms) });
  for (const [call, failure] of [
    ...Array.from({ length: 7 }, () => new Unavailable('away')),
    new Error('too large'),
    undefined,
    new Unavailable('away'),
  ].entries()) {
    if (failure !== undefined) failNext(failure);
    await append(records(call, 1), 10).catch(() => undefined);
    await turn();
  }
  expect(pauses).toEqual([100, 200, 400, 800, 1600, 2000, 2000, 100].map(aPause));
});

test('releases the memory of a rejected send', async () => {
  const waiting = new AppendBudget(100);
  const { append, failNext } = aPartition({ waiting });
  failNext(new Unavailable('lost'));
  await expect(append(records(0, 1), 100)).rejects.toThrow('lost');
  await append(records(1, 1), 100);
});

test('is idle only after all appends were sent', async () => {
  const { append, appender, sends } = aPartition({ maxSendBytes: 10 });
  const appended = [0, 1, 2].map((call) => append(records(call, 1), 10));
  await appender.idle();
  expect(sends).toHaveLength(3);
  await Promise.all(appended);
  await appender.idle();
});

/** Returns an appender and its sends. Each send takes one turn of the event loop. */
function aPartition({
  maxSendBytes = 1_000_000,
  waiting = new AppendBudget(),
  rest = (_ms: number) => turn(),
} = {}) {
  const reported: string[] = [];
  const sends: PartitionBatch[] = [];
  let [end, inFlight, most] = [0, 0, 0];
  let failure: Error | undefined;
  let hanging: Promise<void> | undefined;
  const appender = new PartitionAppender({
    topic: 'topic',
    partition: 0,
    budget: waiting,
    pause: rest,
    watch: {
      failed: (cause) => void reported.push(`failed: ${messageOf(cause)}`),
      recovered: () => void reported.push('passed'),
      end: () => undefined,
    },
    send: async (send) => {
      sends.push(send);
      inFlight += 1;
      most = Math.max(most, inFlight);
      await turn();
      await hanging;
      inFlight -= 1;
      const error = failure;
      failure = undefined;
      if (error !== undefined) throw error;
      end += send.records.length;
      return end - send.records.length;
    },
  });
  return {
    appender,
    append: (records: NewRecord[], bytes: number) =>
      appender.append({ records, bytes, maxSendBytes, deadlineMs: performance.now() + SEND_LIMIT_MS }),
    sends,
    reported,
    isAlone: () => most === 1,
    failNext: (error: Error) => {
      failure = error;
    },
    hang: () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      hanging = promise;
      return resolve;
    },
  };
}

function records(call: number, count: number): NewRecord[] {
  return Array.from({ length: count }, (_, index) => ({
    key: `${call}.${index}`,
    value: Buffer.from('value'),
  }));
}

/** Waits until earlier appends have been sent. */
async function turn(): Promise<void> {
  for (let count = 0; count < 2; count += 1) await new Promise((resolve) => setImmediate(resolve));
}
