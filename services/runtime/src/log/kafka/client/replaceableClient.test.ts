/** A failing client does not delay other users. A client is not closed while it is used. */
import { afterEach, expect, test, vi } from 'vitest';
import { StartRefused, Unavailable } from '../../../process/errors.ts';
import { type Connectable, ReplaceableClient } from './replaceableClient.ts';

afterEach(() => {
  vi.useRealTimers();
});

test('connects to another broker if one accepts the connection but does not respond', async () => {
  vi.useFakeTimers();
  const { replaceable, made } = clients((attempt) => (attempt === 1 ? never() : Promise.resolve()));
  const used = replaceable.use(1000, async ({ attempt }) => attempt);
  await vi.advanceTimersByTimeAsync(5000);
  expect(await used).toBe(2);
  expect(made).toHaveLength(2);
});

test('replaces a client that does not respond', async () => {
  vi.useFakeTimers();
  const { replaceable } = clients();
  const given = expect(replaceable.use(1000, never)).rejects.toThrow('1000 ms');
  await vi.advanceTimersByTimeAsync(1000);
  await given;
  expect(await replaceable.use(1000, async ({ attempt }) => attempt)).toBe(2);
});

test('replaces a client whose preparation gets no response', async () => {
  vi.useFakeTimers();
  const prepare = ({ attempt }: Client) => (attempt === 1 ? never() : Promise.resolve());
  const { replaceable, made } = clients(undefined, prepare);
  const given = expect(replaceable.get()).rejects.toThrow('no answer');
  await vi.advanceTimersByTimeAsync(30_000);
  await given;
  expect((await replaceable.get()).client.attempt).toBe(2);
  expect(made.map(({ isOpen }) => isOpen)).toEqual([false, true]);
});

test('closes a failed client after its last user has finished', async () => {
  const { replaceable, made } = clients();
  const gate = Promise.withResolvers<string>();
  const running = replaceable.use(10_000, () => gate.promise);
  await expect(replaceable.use(10_000, () => Promise.reject(new Error('failed')))).rejects.toThrow('failed');
  expect(await replaceable.use(10_000, async ({ attempt }) => attempt)).toBe(2);
  expect(made.map(({ isOpen }) => isOpen)).toEqual([true, true]);
  gate.resolve('done');
  expect(await running).toBe('done');
  await expect.poll(() => made.map(({ isOpen }) => isOpen)).toEqual([false, true]);
});

test('connects once for concurrent callers, and again after a failure', async () => {
  const { replaceable, made } = clients((attempt) =>
    attempt <= 3 ? Promise.reject(new Error('refused')) : Promise.resolve(),
  );
  const outcomes = await Promise.allSettled([1, 2].map(() => replaceable.use(1000, async () => 'used')));
  for (const outcome of outcomes) {
    expect(outcome).toMatchObject({ status: 'rejected', reason: expect.any(Unavailable) });
  }
  expect(made).toHaveLength(3);
  expect(await replaceable.use(1000, async ({ attempt }) => attempt)).toBe(4);
});

test('passes on a StartRefused', async () => {
  const { replaceable } = clients();
  const rejected = replaceable.use(1000, () => Promise.reject(new StartRefused('of the settings')));
  await expect(rejected).rejects.toBeInstanceOf(StartRefused);
});

test('waits for running work when it closes and does not reconnect', async () => {
  const { replaceable, made } = clients();
  const gate = Promise.withResolvers<string>();
  const running = replaceable.use(10_000, () => gate.promise);
  await expect.poll(() => made[0]?.isOpen).toBe(true);
  const closing = replaceable.close();
  await expect(replaceable.use(1000, async () => 'late')).rejects.toBeInstanceOf(Unavailable);
  expect(made[0]?.isOpen).toBe(true);
  gate.resolve('done');
  await closing;
  expect(await running).toBe('done');
  expect(made.map(({ isOpen }) => isOpen)).toEqual([false]);
});

interface Client extends Connectable {
  readonly attempt: number;
  isOpen: boolean;
}

/** Creates clients. The callbacks receive the number of the client, which starts at 1. */
function clients(
  connect: (attempt: number) => Promise<void> = () => Promise.resolve(),
  prepare: (client: Client) => Promise<void> = () => Promise.resolve(),
) {
  const made: Client[] = [];
  const create = (): Client => {
    const client: Client = {
      attempt: made.length + 1,
      isOpen: false,
      connect: async () => {
        await connect(client.attempt);
        client.isOpen = true;
      },
      disconnect: async () => {
        client.isOpen = false;
      },
    };
    made.push(client);
    return client;
  };
  return { replaceable: new ReplaceableClient(create, { prepare }), made };
}

function never(): Promise<never> {
  return Promise.withResolvers<never>().promise;
}
