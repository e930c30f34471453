/** Asks a broker again until it is taken: after what may pass, at whom leads by then, and over new connections after silence. */
import kafkajs, { type Broker, type Cluster } from 'kafkajs';
import { Unavailable } from '../../../process/errors.ts';
import { Backoff, pause } from '../../../process/waiting.ts';
import { protocolError } from '../client/exchange.ts';
import { isOfType } from '../client/failures.ts';
import { NO_LEADER } from '../client/patches.ts';
import { answered, type Renewable, type SharedClient } from '../client/renewable.ts';

export interface Question<T> {
  /** The broker to ask, by what is known just now. */
  find(cluster: Cluster): Promise<Broker>;
  /** Does nothing more when it is repeated. */
  ask(broker: Broker): Promise<T>;
  /** It would do harm if a broker took it late, behind its repetition: it is repeated only after an answer. */
  readonly isHarmfulLate?: boolean;
  /** No try begins later, by the process's own clock. */
  readonly deadlineMs: number;
}

export class Tries {
  readonly #cluster: Renewable<Cluster>;
  readonly #closed = new AbortController();

  constructor(cluster: Renewable<Cluster>) {
    this.#cluster = cluster;
  }

  /** @throws what the last try that reached a broker threw. */
  async until<T>({ find, ask, isHarmfulLate = false, deadlineMs }: Question<T>): Promise<T> {
    const backoff = new Backoff(FIRST_PAUSE_MS, MAX_PAUSE_MS);
    let failure: unknown;
    for (;;) {
      let opened: SharedClient<Cluster> | undefined;
      let isAsked = false;
      try {
        opened = await this.#cluster.get();
        return await opened.use(async (cluster) => {
          const broker = await find(cluster);
          isAsked = true;
          return await ask(broker);
        });
      } catch (error) {
        if (isAsked && isHarmfulLate && !isAnswer(error)) throw error;
        const isInDoubt = failure !== undefined;
        // That no broker can be reached now says nothing of what was asked before.
        if (opened !== undefined || !isInDoubt) failure = error;
        if (!mayPass(error) && !(isInDoubt && error instanceof Unavailable)) throw failure;
        const pauseMs = backoff.next();
        if (this.#closed.signal.aborted || performance.now() + pauseMs > deadlineMs) throw failure;
        await pause(pauseMs, this.#closed.signal);
        if (opened !== undefined) await this.#refresh(opened, error);
      }
    }
  }

  /** The next try has new connections. */
  renew(): void {
    const { current } = this.#cluster;
    if (current !== undefined) this.#cluster.renew(current);
  }

  /** No other try begins; waits for those that run. */
  async close(): Promise<void> {
    this.#closed.abort();
    await this.#cluster.close();
  }

  /** A broker that answers is well, and another may lead by now. */
  async #refresh(opened: SharedClient<Cluster>, error: unknown): Promise<void> {
    // What a transaction waits for so is over within milliseconds.
    if (isOfType(error, 'CONCURRENT_TRANSACTIONS')) return;
    const isFresh =
      isAnswer(error) && (await answered(refreshed(opened), REFRESH_LIMIT_MS).catch(() => false));
    if (!isFresh) this.#cluster.renew(opened);
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

async function refreshed(opened: SharedClient<Cluster>): Promise<boolean> {
  await opened.use((cluster) => cluster.refreshMetadata());
  return true;
}

/** What the broker was asked is over: nothing of it is under way. */
export function isAnswer(error: unknown): boolean {
  return error instanceof kafkajs.KafkaJSProtocolError;
}

/** kafkajs says so of a moved leader, too few replicas and what else a broker cannot take now, and of lost connections. */
function mayPass(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (at instanceof kafkajs.KafkaJSError && at.retriable) return true;
  }
  return false;
}
