/** Lets any number of waiters wait for the next change of something, each no longer than it likes. */

export class Changes {
  #next = Promise.withResolvers<void>();

  tell(): void {
    this.#next.resolve();
    this.#next = Promise.withResolvers<void>();
  }

  async next(waitMs: number): Promise<void> {
    const { promise: patience, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, waitMs);
    await Promise.race([this.#next.promise, patience]);
    clearTimeout(timer);
  }
}
