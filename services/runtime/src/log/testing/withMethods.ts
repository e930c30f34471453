/** A log of which a test has changed something: one that fails, that is late, that counts. */
import type { Log } from '../log.ts';

/** The same log (or part of one), with these methods instead of its own. */
export function withMethods<T extends object>(log: T, methods: Partial<T>): T {
  return new Proxy(log, {
    get: (target, name) => {
      if (name in methods) return Reflect.get(methods, name);
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** The log of a process that reads on only when it may. */
export function heldBack(log: Log, mayRead: () => Promise<void>): Log {
  return withMethods(log, {
    tail: (options) =>
      log.tail({ ...options, onBatch: (batch) => mayRead().then(() => options.onBatch(batch)) }),
  });
}
