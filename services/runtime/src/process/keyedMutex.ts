/** Runs work with the same name sequentially, in the order of the calls. Work with different names runs concurrently. */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>();

  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const previous = this.#last.get(name);
    const own = previous === undefined ? work() : previous.then(work, work);
    const settled = own.catch(() => {});
    this.#last.set(name, settled);
    try {
      return await own;
    } finally {
      if (this.#last.get(name) === settled) this.#last.delete(name);
    }
  }
}
