/** A kafkajs client that is replaced after a failure, because the cached state of the failed client can be wrong. */
import type { Cluster, Kafka } from 'kafkajs';
import { Unavailable } from '../../../process/errors.ts';
import { withinLimit } from '../../../process/waiting.ts';
import { createCluster } from './clusterAccess.ts';
import { toLogError } from './errors.ts';

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

  constructor(create: () => T, options: ReplaceableClientOptions<T> = {}) {
    this.#create = create;
    this.#options = options;
  }

  get current(): SharedClient<T> | undefined {
    return this.#current;
  }

  /** @throws Unavailable if no broker can be reached or the client was closed. Errors of `prepare` are passed to the caller. */
  async get(): Promise<SharedClient<T>> {
    this.#checkOpen();
    if (this.#current !== undefined) return this.#current;
    this.#opening ??= this.#connect().finally(() => {
      this.#opening = undefined;
    });
    return await this.#opening;
  }

  /**
   * Runs `work` with the client. If `work` fails or takes longer than `limitMs`, later callers get a new client.
   * @throws Unavailable if no broker can be reached or the client was closed. `work` was not started in this case.
   */
  async use<R>(limitMs: number, work: (client: T) => Promise<R>): Promise<R> {
    this.#checkOpen();
    // Reads an existing client without `await`, so that no other caller replaces the client before `work` starts.
    const shared = this.#current ?? (await this.get());
    try {
      return await withinTimeout(shared.use(work), limitMs);
    } catch (error) {
      this.replace(shared);
      throw error;
    }
  }

  /** Gives later callers a new client. Current users of the old client finish their work with the old client. */
  replace(shared: SharedClient<T>): void {
    if (this.#current !== shared) return;
    this.#current = undefined;
    shared.retire();
  }

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
  prepare?(client: T): Promise<void>;
}

/** Returns a separate kafkajs `Cluster` that tracks the leaders of the topics. The names have the configured prefix. */
export function clusterForTopics(kafka: Kafka, topics: readonly string[]): ReplaceableClient<Cluster> {
  const prepare = (cluster: Cluster) => cluster.addMultipleTargetTopics([...topics]);
  return new ReplaceableClient(() => createCluster(kafka), { prepare });
}

/** Connects a client in several attempts, which can use different brokers. @throws Unavailable after the final attempt. */
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

/** Waits for `work` up to the limit. `work` continues after the limit. @throws RequestTimedOut if `work` exceeds the limit. */
export function withinTimeout<T>(work: Promise<T>, limitMs: number): Promise<T> {
  return withinLimit(work, limitMs, () => {
    throw new RequestTimedOut(`no answer within ${limitMs} ms`);
  });
}

export class RequestTimedOut extends Error {}

/** Time after which a request and its client are abandoned. kafkajs fails requests after 12 s but sometimes loses a request. */
export const REQUEST_LIMIT_MS = 30_000;
/** Maximum time of one attempt to connect, including the first requests on the connection. */
const CONNECT_LIMIT_MS = 3000;
const MAX_ATTEMPTS = 3;
/** A client that closes after its final user has finished, because kafkajs reconnects a closed client on its next use. */
export class SharedClient<T extends Connectable> {
  /** Client for reads of cached metadata. Code that sends requests must call `use` instead. */
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

  /** @throws Unavailable if the client was replaced. `work` was not started in this case. */
  async use<R>(work: (client: T) => Promise<R>): Promise<R> {
    if (this.#isRetired) throw new Unavailable('the connection was replaced; nothing was done');
    this.#users += 1;
    try {
      return await work(this.client);
    } finally {
      this.#users -= 1;
      this.#closeIfUnused();
    }
  }

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
