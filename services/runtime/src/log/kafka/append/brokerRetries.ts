/** Retries a request to a Kafka broker. Each attempt goes to the current leader. After a timeout, connections are replaced. */
import kafkajs, { type Broker, type Cluster } from 'kafkajs';
import { Unavailable } from '../../../process/errors.ts';
import { Backoff, pause } from '../../../process/waiting.ts';
import { hasErrorType } from '../client/errors.ts';
import { NO_LEADER } from '../client/patches.ts';
import { type ReplaceableClient, type SharedClient, withinTimeout } from '../client/replaceableClient.ts';
import { protocolError } from '../client/sendRequest.ts';

export interface RetriedRequest<T> {
  find(cluster: Cluster): Promise<Broker>;
  /** Sends the request to the broker. The request must be idempotent, because a retry sends the request again. */
  send(broker: Broker): Promise<T>;
  /** True if a late duplicate of the request would cause harm. After a lost response, such a request is not retried. */
  readonly needsResponseBeforeRetry?: boolean;
  /** Time on the clock of `performance.now()` after which the request is not attempted again. */
  readonly deadlineMs: number;
}

export class BrokerRetries {
  readonly #cluster: ReplaceableClient<Cluster>;
  readonly #closed = new AbortController();

  constructor(cluster: ReplaceableClient<Cluster>) {
    this.#cluster = cluster;
  }

  /** Sends a request and retries the request after failures. @throws the error of the latest attempt that reached a broker. */
  async run<T>({ find, send, needsResponseBeforeRetry = false, deadlineMs }: RetriedRequest<T>): Promise<T> {
    const backoff = new Backoff(FIRST_PAUSE_MS, MAX_PAUSE_MS);
    let failure: unknown;
    for (;;) {
      let sharedClient: SharedClient<Cluster> | undefined;
      let isSent = false;
      try {
        sharedClient = await this.#cluster.get();
        return await sharedClient.use(async (cluster) => {
          const broker = await find(cluster);
          isSent = true;
          return await send(broker);
        });
      } catch (error) {
        if (isSent && needsResponseBeforeRetry && !isBrokerResponse(error)) throw error;
        const isOutcomeUnknown = failure !== undefined;
        // Keeps the error of an earlier attempt that reached a broker, because that attempt may have succeeded. A later
        // connection error would suggest that the attempt failed.
        if (sharedClient !== undefined || !isOutcomeUnknown) failure = error;
        if (!isRetriable(error) && !(isOutcomeUnknown && error instanceof Unavailable)) throw failure;
        const pauseMs = backoff.next();
        if (this.#closed.signal.aborted || performance.now() + pauseMs > deadlineMs) throw failure;
        await pause(pauseMs, this.#closed.signal);
        if (sharedClient !== undefined) await this.#refresh(sharedClient, error);
      }
    }
  }

  replaceConnections(): void {
    const { current } = this.#cluster;
    if (current !== undefined) this.#cluster.replace(current);
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.#cluster.close();
  }

  /** Refreshes the metadata after an error from a broker. After other errors or a failed refresh, replaces the connections. */
  async #refresh(sharedClient: SharedClient<Cluster>, error: unknown): Promise<void> {
    // Skips the refresh after the error CONCURRENT_TRANSACTIONS. A retry is enough, because the previous transaction ends
    // within milliseconds.
    if (hasErrorType(error, 'CONCURRENT_TRANSACTIONS')) return;
    const isFresh =
      isBrokerResponse(error) &&
      (await withinTimeout(refreshed(sharedClient), REFRESH_LIMIT_MS).catch(() => false));
    if (!isFresh) this.#cluster.replace(sharedClient);
  }
}

const FIRST_PAUSE_MS = 3;
const MAX_PAUSE_MS = 1000;
const REFRESH_LIMIT_MS = 3000;

/** Returns the leader of the partition. The cluster must track the topic. @param topic the name with the prefix. */
export async function leaderOf(cluster: Cluster, topic: string, partition: number): Promise<Broker> {
  const partitions = cluster.findTopicPartitionMetadata(topic);
  const leader = partitions.find(({ partitionId }) => partitionId === partition)?.leader ?? NO_LEADER;
  if (leader === NO_LEADER) throw protocolError(LEADER_NOT_AVAILABLE);
  return await cluster.findBroker({ nodeId: String(leader) });
}

const LEADER_NOT_AVAILABLE = 5;

async function refreshed(sharedClient: SharedClient<Cluster>): Promise<boolean> {
  await sharedClient.use((cluster) => cluster.refreshMetadata());
  return true;
}

export function isBrokerResponse(error: unknown): boolean {
  return error instanceof kafkajs.KafkaJSProtocolError;
}

function isRetriable(error: unknown): boolean {
  for (let current = error; current instanceof Error; current = current.cause) {
    if (current instanceof kafkajs.KafkaJSError && current.retriable) return true;
  }
  return false;
}
