/** A kafkajs client that is replaced after a failure, because the cached state of the failed client may be wrong. */
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

  /** @param create a function that returns a client that is not connected yet. */
  constructor(create: () => T, options: ReplaceableClientOptions<T> = {}) {
    this.#create = create;
    this.#options = options;
  }

  get current(): SharedClient<T> | undefined {
    return this.#current;
  }

  /** @throws Unavailable if no broker can be reached or the client was closed. The errors of `prepare` are passed on. */
  async get(): Promise<SharedClient<T>> {
    this.#checkOpen();
    if (this.#current !== undefined) return this.#current;
    this.#opening ??= this.#connect().finally(() => {
      this.#opening = undefined;
    });
    return await this.#opening;
  }

  /**
   * Runs `work` with the client. If `work` fails or exceeds the limit, the client is replaced for all users.
   * @throws Unavailable if no broker can be reached or the client was closed. In these cases, `work` was not started.
   */
  async use<R>(limitMs: number, work: (client: T) => Promise<R>): Promise<R> {
    this.#checkOpen();
    // Reads the current client synchronously, so that no other caller can replace the client first.
    const shared = this.#current ?? (await this.get());
    try {
      return await withinTimeout(shared.use(work), limitMs);
    } catch (error) {
      this.replace(shared);
      throw error;
    }
  }

  /** Makes the next caller use a new client. Current users of the old client finish their work with the old client. */
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

/** Returns a separate kafkajs `Cluster` that knows the leaders of the topics. The topic names have the prefix. */
export function clusterForTopics(kafka: Kafka, topics: readonly string[]): ReplaceableClient<Cluster> {
  const prepare = (cluster: Cluster) => cluster.addMultipleTargetTopics([...topics]);
  return new ReplaceableClient(() => createCluster(kafka), { prepare });
}

/**
 * Returns a connected client. Makes several attempts, because each attempt may use another broker if one broker does not
 * respond. @throws Unavailable after the last attempt.
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

/** @throws RequestTimedOut if the work takes longer than the limit. The work continues, but its outcome is ignored. */
export function withinTimeout<T>(work: Promise<T>, limitMs: number): Promise<T> {
  return withinLimit(work, limitMs, () => {
    throw new RequestTimedOut(`no answer within ${limitMs} ms`);
  });
}

export class RequestTimedOut extends Error {}

/**
 * Time after which a request is abandoned together with its client. kafkajs fails a request after 12 s and retries the request.
 * Sometimes kafkajs loses a request, which then never settles.
 */
export const REQUEST_LIMIT_MS = 30_000;
/** Maximum time of one attempt to connect, including the first requests. */
const CONNECT_LIMIT_MS = 3000;
const MAX_ATTEMPTS = 3;
/**
 * A client that closes after its last user has finished. It must not close earlier, because kafkajs reconnects a closed client
 * when the client is used.
 */
export class SharedClient<T extends Connectable> {
  /** Client for reading cached metadata. Requests must go through `use`. */
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

  /** @throws Unavailable if the client is retired. In this case, `work` was not started. */
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

  /** Rejects new users of the client. */
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
