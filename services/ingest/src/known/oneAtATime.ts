/** Work under a name runs alone: what comes under the same name meanwhile waits its turn. */
export class OneAtATime {
  readonly #last = new Map<string, Promise<unknown>>();

  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name);
    const mine = before === undefined ? work() : before.then(work, work);
    const settled = mine.catch(() => {});
    this.#last.set(name, settled);
    try {
      return await mine;
    } finally {
      if (this.#last.get(name) === settled) this.#last.delete(name);
    }
  }
}
