/**
 * Replaces Node's timers, `performance.now`, random numbers, random bytes, and ids by simulated ones of a world. The services run
 * unchanged, and the same seed gives the same run.
 */
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';
import type { World } from './world.ts';

const realSetImmediate = setImmediate;

/** Immediates per turn of the event loop, because a turn for each immediate is slower. */
const TURNS_AT_ONCE = 64;
let turnsLeft = 0;
let goOn: (() => void) | undefined;

/** Resolves when only external work is left. */
export function nextRealTurn(): Promise<void> {
  if (turnsLeft === 0) {
    turnsLeft = TURNS_AT_ONCE;
    for (let turn = 0; turn < TURNS_AT_ONCE; turn++) realSetImmediate(takeTurn);
  }
  if (goOn !== undefined) throw new Error('one waits already');
  return new Promise((resolve) => {
    goOn = resolve;
  });
}

function takeTurn(): void {
  turnsLeft--;
  const resolve = goOn;
  goOn = undefined;
  resolve?.();
}

/** Minimum delay, as in Node. */
const LEAST_MS = 1;

/** Returns a function that restores Node's timers. */
export function installVirtualTime(world: World): () => void {
  const timer = (run: () => void, delayMs: number, isRepeated: boolean) => {
    const by = world.current;
    let takeBack = () => {};
    const set = (): void => {
      takeBack = world.in(Math.max(LEAST_MS, delayMs), by, 'timer', () => {
        if (isRepeated) set();
        run();
      });
    };
    set();
    const refresh = () => {
      takeBack();
      set();
      return handle;
    };
    const handle = { unref: () => handle, ref: () => handle, refresh, clear: () => takeBack() };
    return handle;
  };
  const clear = (handle?: { clear?: () => void }): void => handle?.clear?.();
  const replaced = [
    replace(globalThis, {
      setTimeout: (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) =>
        timer(() => run(...args), ms, false),
      setInterval: (run: () => void, ms = 0) => timer(run, ms, true),
      // A turn of the event loop is no wait for external work.
      setImmediate: (run: () => void) => queueMicrotask(run),
      clearTimeout: clear,
      clearInterval: clear,
    }),
    replace(Math, { random: () => world.dice.between(0, 2 ** 31 - 1) / 2 ** 31 }),
    replace(performance, { now: () => world.nowMs }),
    replace(AbortSignal, { timeout: (ms: number) => timeoutSignal(ms) }),
    replace(timers, { setTimeout: delay }),
    replace(globalThis.crypto, { randomUUID: () => world.dice.uuid() }),
    replace(crypto, {
      randomUUID: () => world.dice.uuid(),
      randomInt: (least: number, end: number) => world.dice.between(least, end - 1),
      randomBytes: (count: number) => world.dice.bytes(count),
      randomFillSync: (buffer: Buffer) => world.dice.fill(buffer),
    }),
  ];
  syncBuiltinESMExports();
  return () => {
    for (const putBack of replaced) putBack();
    syncBuiltinESMExports();
  };
}

function replace(target: object, by: Readonly<Record<string, unknown>>): () => void {
  const names = Object.keys(by);
  const before = names.map((name) => Object.getOwnPropertyDescriptor(target, name));
  for (const name of names) {
    Object.defineProperty(target, name, { value: by[name], configurable: true, writable: true });
  }
  return () => {
    for (const [i, name] of names.entries()) {
      const descriptor = before[i];
      if (descriptor === undefined) Reflect.deleteProperty(target, name);
      else Object.defineProperty(target, name, descriptor);
    }
  };
}

/** Replaces the delay of `node:timers/promises`. */
function delay<T>(ms = 0, value?: T, { signal }: { signal?: AbortSignal } = {}): Promise<T | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<T | undefined>();
  const onAbort = (): void => {
    clearTimeout(handle);
    reject(new DOMException('This operation was aborted', 'AbortError'));
  };
  const handle = setTimeout(() => {
    signal?.removeEventListener('abort', onAbort);
    resolve(value);
  }, ms);
  if (signal?.aborted) onAbort();
  else signal?.addEventListener('abort', onAbort, { once: true });
  return promise;
}

function timeoutSignal(ms: number): AbortSignal {
  const controller = new AbortController();
  setTimeout(() => controller.abort(new DOMException('The operation timed out', 'TimeoutError')), ms);
  return controller.signal;
}
