/**
 * A kafkajs client that is replaced whole after a failure: what it keeps of dead connections, old leaders and sequence
 * numbers is not to be trusted any more.
 */
import type { Cluster, Kafka } from 'kafkajs';
import { Unavailable } from '../../../process/errors.ts';
import { withinLimit } from '../../../process/waiting.ts';
import { createCluster } from './clusterAccess.ts';
import { toLogError } from './errors.ts';

/** All clients of kafkajs have these. */
export interface Connectable {
  connect(): Promise<void>;
  disconnect(): Promise<void>;
}

export class ReplaceableClient<T extends Connectable> {
  readonly #create: () => T;
  readonly #options: ReplaceableClientOptions<T>;
  readonly #open = new Set<SharedClient<T>>();
  #current: SharedClient<T> | undefined;
  #opening: Promise<SharedClient<T>> | undefined;
  #isClosed = false;

  /** @param create makes a client that is not connected yet. */
  constructor(create: () => T, options: ReplaceableClientOptions<T> = {}) {
    this.#create = create;
    this.#options = options;
  }

  /** Undefined while there is none to use. */
  get current(): SharedClient<T> | undefined {
    return this.#current;
  }

  /** @throws Unavailable when no broker can be reached or it was closed; what `prepare` throws. */
  async get(): Promise<SharedClient<T>> {
    this.#checkOpen();
    if (this.#current !== undefined) return this.#current;
    this.#opening ??= this.#connect().finally(() => {
      this.#opening = undefined;
    });
    return await this.#opening;
  }

  /**
   * Rejects with what `work` throws, or when it takes longer than the limit, and then replaces the client for all.
   * @throws Unavailable when no broker can be reached or it was closed; `work` has not begun then.
   */
  async use<R>(limitMs: number, work: (client: T) => Promise<R>): Promise<R> {
    this.#checkOpen();
    // One that is there is used before anybody else can give it up.
    const shared = this.#current ?? (await this.get());
    try {
      return await withinTimeout(shared.use(work), limitMs);
    } catch (error) {
      this.replace(shared);
      throw error;
    }
  }

  /** The next one to ask gets a new client. Who uses the old one finishes there. */
  replace(shared: SharedClient<T>): void {
    if (this.#current !== shared) return;
    this.#current = undefined;
    shared.retire();
  }

  /** Waits for what runs. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#opening?.catch(() => undefined);
    this.#current?.retire();
    this.#current = undefined;
    await Promise.all([...this.#open].map((shared) => shared.closed));
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new Unavailable('the log is closed; nothing was done');
  }

  async #connect(): Promise<SharedClient<T>> {
    const client = await connectClient(this.#create);
    const shared = new SharedClient(client);
    this.#open.add(shared);
    void shared.closed.then(() => this.#open.delete(shared));
    try {
      await withinTimeout(Promise.resolve(this.#options.prepare?.(client)), REQUEST_LIMIT_MS);
    } catch (error) {
      shared.retire();
      throw error;
    }
    this.#current = shared;
    return shared;
  }
}

export interface ReplaceableClientOptions<T> {
  /** What a client needs once it has connected. */
  prepare?(client: T): Promise<void>;
}

/** A kafkajs `Cluster` of its own for one reader. The leaders of the topics (as the cluster names them) are known. */
export function clusterForTopics(kafka: Kafka, topics: readonly string[]): ReplaceableClient<Cluster> {
  const prepare = (cluster: Cluster) => cluster.addMultipleTargetTopics([...topics]);
  return new ReplaceableClient(() => createCluster(kafka), { prepare });
}

/**
 * A client that has connected. A broker that takes connections and does not answer holds up one try only, since the
 * next begins with another.
 * @throws Unavailable when no broker can be reached.
 */
async function connectClient<T extends Connectable>(create: () => T): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const client = create();
    const connecting = client.connect();
    try {
      await withinTimeout(connecting, CONNECT_LIMIT_MS);
      return client;
    } catch (error) {
      const disconnect = () => client.disconnect().catch(() => undefined);
      connecting.then(disconnect, disconnect);
      const failure = toLogError(error, 'no broker can be reached; nothing was done');
      if (!(failure instanceof Unavailable) || attempt === MAX_ATTEMPTS) throw failure;
    }
  }
}

/** @throws NoAnswer when the work takes longer; it goes on, and its outcome is nobody's. */
export function withinTimeout<T>(work: Promise<T>, limitMs: number): Promise<T> {
  return withinLimit(work, limitMs, () => {
    throw new RequestTimedOut(`no answer within ${limitMs} ms`);
  });
}

export class RequestTimedOut extends Error {}

/**
 * kafkajs gives up a request after 12 s, and after another broker or connection it tries again. It has forgotten requests,
 * and whatever waits for one of those waits for ever: what takes longer than this is given up with its client.
 */
export const REQUEST_LIMIT_MS = 30_000;
/** One try takes no longer, with the first requests. */
const CONNECT_LIMIT_MS = 3000;
const MAX_ATTEMPTS = 3;
/**
 * A kafkajs client that is replaced while others still use it. It is closed when its last user has ended, since kafkajs
 * reconnects a client that is used after its close, and nobody would close that again.
 */
export class SharedClient<T extends Connectable> {
  /** Gives what is known without asking; a request goes through `use`. */
  readonly client: T;
  readonly closed: Promise<void>;
  readonly #resolveClosed: () => void;
  #users = 0;
  #isRetired = false;

  constructor(client: T) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.client = client;
    this.closed = promise;
    this.#resolveClosed = resolve;
  }

  /** @throws Unavailable once it is retired; `work` has not begun then. */
  async use<R>(work: (client: T) => Promise<R>): Promise<R> {
    if (this.#isRetired) throw new Unavailable('the connection was given up; nothing was done');
    this.#users += 1;
    try {
      return await work(this.client);
    } finally {
      this.#users -= 1;
      this.#closeIfUnused();
    }
  }

  /** Nobody else begins to use it. */
  retire(): void {
    if (this.#isRetired) return;
    this.#isRetired = true;
    this.#closeIfUnused();
  }

  #closeIfUnused(): void {
    if (!this.#isRetired || this.#users > 0) return;
    this.client.disconnect().then(this.#resolveClosed, this.#resolveClosed);
  }
}
