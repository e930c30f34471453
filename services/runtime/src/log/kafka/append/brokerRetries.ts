/** Asks a broker again until it is taken: after what may pass, at whom leads by then, and over new connections after silence. */
import kafkajs, { type Broker, type Cluster } from 'kafkajs';
import { Unavailable } from '../../../process/errors.ts';
import { Backoff, pause } from '../../../process/waiting.ts';
import { hasErrorType } from '../client/errors.ts';
import { NO_LEADER } from '../client/patches.ts';
import { type ReplaceableClient, type SharedClient, withinTimeout } from '../client/replaceableClient.ts';
import { protocolError } from '../client/sendRequest.ts';

export interface RetriedRequest<T> {
  /** The broker to ask, by what is known just now. */
  find(cluster: Cluster): Promise<Broker>;
  /** Does nothing more when it is repeated. */
  send(broker: Broker): Promise<T>;
  /** It would do harm if a broker took it late, behind its repetition: it is repeated only after an answer. */
  readonly needsResponseBeforeRetry?: boolean;
  /** No try begins later, by the process's own clock. */
  readonly deadlineMs: number;
}

export class BrokerRetries {
  readonly #cluster: ReplaceableClient<Cluster>;
  readonly #closed = new AbortController();

  constructor(cluster: ReplaceableClient<Cluster>) {
    this.#cluster = cluster;
  }

  /** @throws what the last try that reached a broker threw. */
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
        // That no broker can be reached now says nothing of what was asked before.
        if (sharedClient !== undefined || !isOutcomeUnknown) failure = error;
        if (!isRetriable(error) && !(isOutcomeUnknown && error instanceof Unavailable)) throw failure;
        const pauseMs = backoff.next();
        if (this.#closed.signal.aborted || performance.now() + pauseMs > deadlineMs) throw failure;
        await pause(pauseMs, this.#closed.signal);
        if (sharedClient !== undefined) await this.#refresh(sharedClient, error);
      }
    }
  }

  /** The next try has new connections. */
  replaceConnections(): void {
    const { current } = this.#cluster;
    if (current !== undefined) this.#cluster.replace(current);
  }

  /** No other try begins; waits for those that run. */
  async close(): Promise<void> {
    this.#closed.abort();
    await this.#cluster.close();
  }

  /** A broker that answers is well, and another may lead by now. */
  async #refresh(sharedClient: SharedClient<Cluster>, error: unknown): Promise<void> {
    // What a transaction waits for so is over within milliseconds.
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

/** @param topic as the cluster names it, and as its client was told. */
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

/** What the broker was asked is over: nothing of it is under way. */
export function isBrokerResponse(error: unknown): boolean {
  return error instanceof kafkajs.KafkaJSProtocolError;
}

/** kafkajs says so of a moved leader, too few replicas and what else a broker cannot take now, and of lost connections. */
function isRetriable(error: unknown): boolean {
  for (let current = error; current instanceof Error; current = current.cause) {
    if (current instanceof kafkajs.KafkaJSError && current.retriable) return true;
  }
  return false;
}
