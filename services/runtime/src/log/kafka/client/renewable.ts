/**
 * A kafkajs client that is replaced whole after a failure: what it keeps of dead connections, old leaders and sequence
 * numbers is not to be trusted any more.
 */
import { Unavailable } from '../../../process/errors.ts';
import { asFailure } from './failures.ts';

/** All clients of kafkajs have these. */
export interface Connectable {
  connect(): Promise<void>;
  disconnect(): Promise<void>;
}

export class Renewable<T extends Connectable> {
  readonly #create: () => T;
  readonly #onReplaced: (cause: unknown) => void;
  readonly #open = new Set<SharedClient<T>>();
  #current: Promise<SharedClient<T>> | undefined;
  #isClosed = false;

  /** @param create makes a client that is not connected yet. */
  constructor(create: () => T, onReplaced: (cause: unknown) => void = () => undefined) {
    this.#create = create;
    this.#onReplaced = onReplaced;
  }

  /**
   * Rejects with what `work` throws, or when it takes longer than the limit, and then replaces the client for all. Who
   * uses the old one finishes there.
   * @throws Unavailable when no broker can be reached or it was closed; `work` has not begun then.
   */
  async use<R>(limitMs: number, work: (client: T) => Promise<R>): Promise<R> {
    if (this.#isClosed) throw new Unavailable('the log is closed; nothing was done');
    this.#current ??= this.#connect();
    const shared = await this.#current;
    try {
      return await withinLimit(shared.use(work), limitMs);
    } catch (error) {
      this.#replace(shared, error);
      throw error;
    }
  }

  /** Waits for what runs. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const current = this.#current;
    this.#current = undefined;
    (await current?.catch(() => undefined))?.retire();
    await Promise.all([...this.#open].map((shared) => shared.closed));
  }

  async #connect(): Promise<SharedClient<T>> {
    try {
      const client = await connectedOf(this.#create);
      const shared = new SharedClient(client, () => client.disconnect());
      this.#open.add(shared);
      shared.closed.then(() => this.#open.delete(shared));
      return shared;
    } catch (error) {
      this.#current = undefined;
      throw error;
    }
  }

  #replace(shared: SharedClient<T>, cause: unknown): void {
    if (!shared.retire()) return;
    this.#current = undefined;
    this.#onReplaced(cause);
  }
}

/**
 * A client that has connected. A broker that takes connections and does not answer holds up one try only, since the
 * next begins with another.
 * @throws Unavailable when no broker can be reached.
 */
export async function connectedOf<T extends Connectable>(create: () => T): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    const client = create();
    const connecting = client.connect();
    try {
      await withinLimit(connecting, CONNECT_LIMIT_MS);
      return client;
    } catch (error) {
      const disconnect = () => client.disconnect().catch(() => undefined);
      connecting.then(disconnect, disconnect);
      const failure = asFailure(error, 'no broker can be reached; nothing was done');
      if (!(failure instanceof Unavailable) || tries === MAX_TRIES) throw failure;
    }
  }
}

/** @throws Error when the work takes longer; it goes on, and its outcome is nobody's. */
export async function withinLimit<T>(work: Promise<T>, limitMs: number): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer within ${limitMs} ms`)), limitMs);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** One try takes no longer, with the first requests. */
const CONNECT_LIMIT_MS = 3000;
const MAX_TRIES = 3;
/**
 * A kafkajs client that is replaced while others still use it. It is closed when its last user has ended, since kafkajs
 * reconnects a client that is used after its close, and nobody would close that again.
 */
export class SharedClient<T> {
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
