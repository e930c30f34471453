/**
 * A kafkajs `Cluster` of its own for one reader, opened when it is needed. After failures it is thrown away whole: what
 * kafkajs keeps of lost connections and old metadata is not to be trusted.
 */
import type { Cluster, Kafka } from 'kafkajs';
import { Unavailable } from '../../../process/errors.ts';
import { newCluster } from './clusterAccess.ts';
import { connectedOf, SharedClient } from './renewable.ts';

export interface OpenedCluster {
  /** Gives what is known without asking; a request goes through `use`. */
  readonly cluster: Cluster;
  use<T>(work: (cluster: Cluster) => Promise<T>): Promise<T>;
}

export class RenewableCluster {
  readonly #kafka: Kafka;
  readonly #topics: readonly string[];
  #opening: Promise<OpenedCluster> | undefined;
  #current: (OpenedCluster & { shared: SharedClient<Cluster> }) | undefined;
  #isClosed = false;
  readonly #retired = new Set<Promise<void>>();

  /** @param topics as the cluster names them; their leaders are known once it is open. */
  constructor(kafka: Kafka, topics: readonly string[]) {
    this.#kafka = kafka;
    this.#topics = topics;
  }

  /** Undefined while there is none to use. */
  get current(): OpenedCluster | undefined {
    return this.#current;
  }

  /** @throws what kafkajs throws when no broker answers; Unavailable once closed. */
  async get(): Promise<OpenedCluster> {
    if (this.#current !== undefined) return this.#current;
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    return await this.#opening;
  }

  /** The next `get` opens a new one. Who uses the old one finishes there. */
  renew(opened: OpenedCluster): void {
    if (this.#current !== opened) return;
    const { shared } = this.#current;
    this.#current = undefined;
    shared.retire();
    this.#retired.add(shared.closed);
    void shared.closed.then(() => this.#retired.delete(shared.closed));
  }

  /** Resolves when the last answer under way has come or was given up, and the connections are closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#opening?.catch(() => undefined);
    if (this.#current !== undefined) this.renew(this.#current);
    await Promise.all(this.#retired);
  }

  async #open(): Promise<OpenedCluster> {
    if (this.#isClosed) throw new Unavailable('the reader is closed');
    const cluster = await connectedOf(() => newCluster(this.#kafka));
    const shared = new SharedClient(cluster, () => cluster.disconnect());
    try {
      await shared.use(() => cluster.addMultipleTargetTopics([...this.#topics]));
    } catch (error) {
      shared.retire();
      throw error;
    }
    this.#current = { cluster, shared, use: (work) => shared.use(work) };
    return this.#current;
  }
}
