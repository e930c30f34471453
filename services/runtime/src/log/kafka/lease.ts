/**
 * A kafkajs client that is replaced while others still use it: closed when its last user has ended, since kafkajs
 * reconnects a client that is used after its close, and nobody would close that again.
 */
export class Lease<T> {
  readonly closed: Promise<void>;
  readonly #client: T;
  readonly #close: () => void;
  #users = 0;
  #isRetired = false;

  constructor(client: T, close: (client: T) => Promise<void>) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.closed = promise;
    this.#client = client;
    this.#close = () => void close(client).then(resolve, () => resolve());
  }

  async use<R>(work: (client: T) => Promise<R>): Promise<R> {
    this.#users += 1;
    try {
      return await work(this.#client);
    } finally {
      this.#users -= 1;
      this.#closeIfUnused();
    }
  }

  /** Returns whether it was not retired before. */
  retire(): boolean {
    if (this.#isRetired) return false;
    this.#isRetired = true;
    this.#closeIfUnused();
    return true;
  }

  #closeIfUnused(): void {
    if (this.#isRetired && this.#users === 0) this.#close();
  }
}
