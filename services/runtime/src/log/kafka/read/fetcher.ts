/**
 * Reads partitions ahead for one reader: one Fetch at a time to each broker that leads any of them. kafkajs's consumer
 * pushes, hides where a batch ends and passes over batches of markers; with its `Cluster` we ask the brokers ourselves.
 */
import type { Cluster } from 'kafkajs';
import { messageOf, StartRefused } from '../../../process/errors.ts';
import { Backoff, pause } from '../../../process/waiting.ts';
import { FollowingTail } from '../../followingTail.ts';
import type { TailOptions } from '../../log.ts';
import { isOfType } from '../client/failures.ts';
import { Outage } from '../client/outage.ts';
import { NO_LEADER } from '../client/patches.ts';
import { type Renewable, readersCluster, type SharedClient } from '../client/renewable.ts';
import type { KafkaDeps } from '../topics/catalog.ts';
import { fetchFrom } from './fetchRequest.ts';
import { moveIntoRange } from './moveIntoRange.ts';
import { PartitionBuffer } from './partitionBuffer.ts';

/** @throws Error for a topic that is not there; Unavailable when no broker answers. */
export async function openTail(deps: KafkaDeps, options: TailOptions): Promise<FollowingTail> {
  const { topic } = options;
  const ranges = (await deps.catalog.ranges(topic)).map((range) => range ?? UNKNOWN);
  const cluster = readersCluster(deps.kafka, [deps.nameOf(topic)]);
  const onFailed = (error: unknown) => tail.fail(error);
  const fetcher = new Fetcher(deps, { cluster, topics: [topic], onFailed });
  const tail: FollowingTail = new FollowingTail(options, ranges, {
    open: (partition, position, ring) => fetcher.open(topic, partition, position, ring),
    stop: () => fetcher.close(),
    close: () => cluster.close(),
  });
  return tail;
}

/** Stands for a partition without a leader: once it has one, the fetches move into what there is. */
const UNKNOWN = { startOffset: 0, endOffset: Number.POSITIVE_INFINITY };

export interface FetcherOptions {
  readonly cluster: Renewable<Cluster>;
  /** Named in logs, without the prefix. */
  readonly topics: readonly string[];
  /** The positions are this group's; undefined for a tail, which loses nothing by going on. */
  readonly group?: string;
  /** Called with what never passes by itself: records in a coding that cannot be read, topics that may not be. */
  onFailed(error: unknown): void;
}

/** Buffered for all partitions of a reader; beyond it only those with nothing buffered are fetched. */
const MAX_READER_BYTES = 32 * 1024 * 1024;
const FIRST_BACKOFF_MS = 20;
const MAX_BACKOFF_MS = 1000;
/** After this many failures of one broker in a row, longer than a leader takes to move, all connections are replaced. */
const RENEW_AFTER = 20;
/** Stands for the broker's id of a partition without a known leader. */
const NOBODY = String(NO_LEADER);
const CONNECTING = 'connecting';

const HOPELESS = ['KafkaJSNotImplemented', 'KafkaJSUnsupportedMagicByteInMessageSet'];
const DENIED = 'TOPIC_AUTHORIZATION_FAILED';

/** A leader has moved: nothing to tell anybody, unless it lasts. */
const MOVED = [
  'NOT_LEADER_FOR_PARTITION',
  'LEADER_NOT_AVAILABLE',
  'FENCED_LEADER_EPOCH',
  'UNKNOWN_LEADER_EPOCH',
  'REPLICA_NOT_AVAILABLE',
];

export class Fetcher {
  readonly #deps: KafkaDeps;
  readonly #options: FetcherOptions;
  readonly #outage: Outage;
  readonly #buffers = new Set<PartitionBuffer>();
  readonly #closed = new AbortController();
  /** Brokers with a Fetch, or a pause after a failure, under way. */
  readonly #busy = new Set<string>();
  #isConnecting = false;
  #isScheduled = false;
  #hasRead = false;

  constructor(deps: KafkaDeps, options: FetcherOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#outage = new Outage(deps.logger, 'log_reading', { topics: options.topics });
  }

  /** @param topic without the prefix. `onFilled` is called when something has come. */
  open(topic: string, partition: number, position: number, onFilled: () => void): PartitionBuffer {
    const buffer: PartitionBuffer = new PartitionBuffer(
      { topic, clusterTopic: this.#deps.nameOf(topic), partition, position },
      {
        filled: onFilled,
        drained: () => this.#schedule(),
        released: () => this.#buffers.delete(buffer),
      },
    );
    this.#buffers.add(buffer);
    this.#schedule();
    return buffer;
  }

  /** Nothing is delivered from here on. */
  close(): void {
    this.#buffers.clear();
    this.#closed.abort();
  }

  /** Waits for a turn of its own, so that partitions opened together are fetched together. */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#start();
    });
  }

  #start(): void {
    if (this.#buffers.size === 0) return;
    const opened = this.#options.cluster.current;
    if (opened === undefined) {
      void this.#connect();
      return;
    }
    for (const { leader } of this.#wanted(opened.client)) {
      if (!this.#busy.has(leader)) void this.#serve(leader);
    }
  }

  async #connect(): Promise<void> {
    if (this.#isConnecting) return;
    this.#isConnecting = true;
    const backoff = new Backoff(FIRST_BACKOFF_MS, MAX_BACKOFF_MS);
    while (this.#options.cluster.current === undefined && this.#isOpen) {
      try {
        await this.#options.cluster.get();
      } catch (error) {
        if (!this.#isOpen) break;
        this.#outage.failed(CONNECTING, error);
        await this.#pause(backoff.next());
      }
    }
    this.#isConnecting = false;
    this.#schedule();
  }

  /** Fetches from one broker for as long as there is something to fetch from it. Never rejects. */
  async #serve(leader: string): Promise<void> {
    this.#busy.add(leader);
    let failures = 0;
    const backoff = new Backoff(FIRST_BACKOFF_MS, MAX_BACKOFF_MS);
    while (this.#isOpen) {
      const opened = this.#options.cluster.current;
      if (opened === undefined) {
        if (failures > 0) this.#outage.failed(CONNECTING);
        break;
      }
      const wanted = this.#wanted(opened.client)
        .filter((one) => one.leader === leader)
        .map(({ buffer }) => buffer);
      if (wanted.length === 0) break;
      try {
        await this.#fetch(opened, leader, wanted);
        failures = 0;
        backoff.reset();
        this.#hasRead = true;
        this.#outage.passed(leader);
        this.#outage.passed(CONNECTING);
      } catch (error) {
        failures += 1;
        if (this.#isOpen) await this.#recover({ opened, leader, wanted, error, failures, backoff });
      }
    }
    this.#busy.delete(leader);
    this.#outage.passed(leader);
    this.#schedule();
  }

  async #fetch(
    opened: SharedClient<Cluster>,
    leader: string,
    wanted: readonly PartitionBuffer[],
  ): Promise<void> {
    if (leader === NOBODY) throw new Error('a partition has no leader');
    const isAnyLeftOut = [...this.#buffers].some(
      (buffer) => !wanted.includes(buffer) && leaderOf(opened.client, buffer) === leader,
    );
    await opened.use(async (cluster) => {
      const broker = await cluster.findBroker({ nodeId: leader });
      await fetchFrom(broker, wanted, { isAnyLeftOut, catalog: this.#deps.catalog });
    });
  }

  /** The buffers that want records, with their leaders. */
  #wanted(cluster: Cluster): { buffer: PartitionBuffer; leader: string }[] {
    let total = 0;
    for (const { bufferedBytes } of this.#buffers) total += bufferedBytes;
    const isReaderFull = total >= MAX_READER_BYTES;
    return [...this.#buffers]
      .filter((buffer) => !buffer.isFull && (buffer.isEmpty || !isReaderFull))
      .map((buffer) => ({ buffer, leader: leaderOf(cluster, buffer) }));
  }

  async #recover({ opened, leader, wanted, error, failures, backoff }: Failure): Promise<void> {
    if (isOfType(error, DENIED, ...HOPELESS)) {
      this.close();
      this.#options.onFailed(isOfType(error, DENIED) ? this.#denied(wanted, error) : error);
      return;
    }
    const { cluster } = this.#options;
    try {
      if (
        isOfType(error, 'OFFSET_OUT_OF_RANGE') &&
        (await moveIntoRange(this.#deps, this.#options.group, wanted))
      )
        return;
      const mayPass = leader === NOBODY || isOfType(error, ...MOVED);
      if (failures > 1 || !mayPass) this.#outage.failed(leader, error);
      await this.#pause(backoff.next());
      // A leader that is missing is missing for every connection; the others are being read meanwhile.
      const isWornOut = leader !== NOBODY && failures % RENEW_AFTER === 0;
      if (isWornOut || isOfType(error, 'KafkaJSRequestTimeoutError')) cluster.renew(opened);
      else if (cluster.current === opened) await opened.use((one) => one.refreshMetadata());
    } catch {
      cluster.renew(opened);
    }
    // Leaders may have moved to brokers that nobody asks yet.
    this.#schedule();
  }

  /** The answer does not say which of the topics it is. */
  #denied(wanted: readonly PartitionBuffer[], cause: unknown): Error {
    const topics = [...new Set(wanted.map(({ clusterTopic }) => clusterTopic))].join(' or ');
    const message = `the brokers do not let this process read the topic ${topics}: ${messageOf(cause)}`;
    return this.#hasRead ? new Error(message, { cause }) : new StartRefused(message, { cause });
  }

  get #isOpen(): boolean {
    return !this.#closed.signal.aborted;
  }

  #pause(ms: number): Promise<void> {
    return pause(ms, this.#closed.signal);
  }
}

interface Failure {
  readonly opened: SharedClient<Cluster>;
  readonly leader: string;
  readonly wanted: readonly PartitionBuffer[];
  readonly error: unknown;
  /** Failures of this broker in a row. */
  readonly failures: number;
  readonly backoff: Backoff;
}

function leaderOf(cluster: Cluster, { clusterTopic, partition }: PartitionBuffer): string {
  const partitions = cluster.findTopicPartitionMetadata(clusterTopic);
  return String(partitions.find(({ partitionId }) => partitionId === partition)?.leader ?? NOBODY);
}
