/** Wakes one waiting loop: a ring between two waits is not lost, so that nothing needs to poll. */

export class Doorbell {
  #rung = false;
  #answer: (() => void) | undefined;

  ring(): void {
    this.#rung = true;
    this.#answer?.();
  }

  /** Resolves at once when it rang since the last wait, else at the next ring or after `waitMs`. One waiter at a time. */
  async wait(waitMs?: number): Promise<void> {
    if (!this.#rung) await this.#nextRing(waitMs);
    this.#rung = false;
  }

  async #nextRing(waitMs: number | undefined): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = waitMs === undefined ? undefined : setTimeout(resolve, waitMs);
    this.#answer = resolve;
    await promise;
    this.#answer = undefined;
    clearTimeout(timer);
  }
}

/** Lets timers, sockets and other loops have their turn between two chunks of synchronous work. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Waits for `promise`, which never rejects, but not longer than `waitMs`. */
export async function settledWithin(promise: Promise<unknown>, waitMs: number): Promise<void> {
  const { promise: timeout, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, waitMs);
  await Promise.race([promise, timeout]);
  clearTimeout(timer);
}
