/** A client in trouble must not hold up others, or be closed under those that still use it. */
import { afterEach, expect, test, vi } from 'vitest';
import { StartRefused, Unavailable } from '../../../process/errors.ts';
import { type Connectable, ReplaceableClient } from './replaceableClient.ts';

afterEach(() => {
  vi.useRealTimers();
});

test('turns to another broker when one takes the connection and does not answer', async () => {
  vi.useFakeTimers();
  const { replaceable, made } = clients((attempt) => (attempt === 1 ? never() : Promise.resolve()));
  const used = replaceable.use(1000, async ({ attempt }) => attempt);
  await vi.advanceTimersByTimeAsync(5000);
  expect(await used).toBe(2);
  expect(made).toHaveLength(2);
});

test('gives up a client that does not answer, and the next is asked', async () => {
  vi.useFakeTimers();
  const { replaceable } = clients();
  const given = expect(replaceable.use(1000, never)).rejects.toThrow('1000 ms');
  await vi.advanceTimersByTimeAsync(1000);
  await given;
  expect(await replaceable.use(1000, async ({ attempt }) => attempt)).toBe(2);
});

test('gives up a client that connects and then does not answer what it needs to know', async () => {
  vi.useFakeTimers();
  const prepare = ({ attempt }: Client) => (attempt === 1 ? never() : Promise.resolve());
  const { replaceable, made } = clients(undefined, prepare);
  const given = expect(replaceable.get()).rejects.toThrow('no answer');
  await vi.advanceTimersByTimeAsync(30_000);
  await given;
  expect((await replaceable.get()).client.attempt).toBe(2);
  expect(made.map(({ isOpen }) => isOpen)).toEqual([false, true]);
});

test('lets others finish with a client that failed, and closes it after the last of them', async () => {
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

test('connects once for all who ask at once, and anew after it could not', async () => {
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

test('passes on what refuses the start', async () => {
  const { replaceable } = clients();
  const refused = replaceable.use(1000, () => Promise.reject(new StartRefused('of the settings')));
  await expect(refused).rejects.toBeInstanceOf(StartRefused);
});

test('waits at its close for what runs, and connects no more', async () => {
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

/** `connect` is asked with the number of the client, from 1. */
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
