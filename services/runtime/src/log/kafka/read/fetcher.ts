/** Fetches records in advance for one reader, with one request at a time per broker. Retries failed partitions separately. */
import type { Cluster } from 'kafkajs';
import { messageOf, StartRefused } from '../../../process/errors.ts';
import { Backoff, pause, retry } from '../../../process/waiting.ts';
import { FollowingTail } from '../../followingTail.ts';
import type { TailOptions } from '../../log.ts';
import { hasErrorType } from '../client/errors.ts';
import { Outage } from '../client/outage.ts';
import type { PartitionWatch } from '../client/partitionHealth.ts';
import { NO_LEADER } from '../client/patches.ts';
import {
  clusterForTopics,
  REQUEST_LIMIT_MS,
  type ReplaceableClient,
  RequestTimedOut,
  type SharedClient,
  withinTimeout,
} from '../client/replaceableClient.ts';
import type { KafkaDeps } from '../topics/catalog.ts';
import { adjustPosition, handleTruncation } from './adjustPosition.ts';
import { Diverged, fetchFromBroker, type ReadLimits, type WantedPartition } from './fetchRequest.ts';
import { PartitionBuffer } from './partitionBuffer.ts';
import { InvalidBatch } from './recordBatches.ts';

/** Opens a log reader (`Tail`). @throws Error if the topic is missing. @throws Unavailable if no broker responds. */
export async function openTail(deps: KafkaDeps, options: TailOptions): Promise<FollowingTail> {
  const { topic } = options;
  const ranges = (await deps.catalog.ranges(topic)).map((range) => range ?? UNKNOWN_RANGE);
  const cluster = clusterForTopics(deps.kafka, [deps.nameOf(topic)]);
  const onFailed = (error: unknown) => tail.fail(error);
  const fetcher = new Fetcher(deps, { cluster, topics: [topic], onFailed });
  const tail: FollowingTail = new FollowingTail(options, ranges, {
    open: (partition, position, ring) => fetcher.open(topic, partition, position, ring),
    stop: () => fetcher.close(),
    close: () => cluster.close(),
  });
  return tail;
}

const UNKNOWN_RANGE = { startOffset: 0, endOffset: Number.POSITIVE_INFINITY };

export interface FetcherOptions {
  readonly cluster: ReplaceableClient<Cluster>;
  /** Names of the topics without the configured prefix. */
  readonly topics: readonly string[];
  /** Consumer group of the reader. Undefined if the reader has no group. Expired records are then not reported as a loss. */
  readonly group?: string;
  /** Reports a permanent error that affects more than one partition, for example a missing read permission. */
  onFailed(error: unknown): void;
}

/** If the buffers of one reader contain this number of bytes, the reader fetches only partitions with an empty buffer. */
const MAX_READER_BYTES = 32 * 1024 * 1024;
const FIRST_BACKOFF_MS = 20;
const MAX_BACKOFF_MS = 1000;
/**
 * After this number of failures in a row, all connections are replaced. A leader election causes fewer failures than this
 * number.
 */
const REPLACE_AFTER_FAILURES = 20;
const NO_LEADER_ID = String(NO_LEADER);
const CONNECTING = 'connecting';

const ACCESS_DENIED = 'TOPIC_AUTHORIZATION_FAILED';

/** Errors that report a moved leader. These errors are normal during an election and are reported only if they persist. */
const LEADER_MOVED_ERRORS = [
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
  /** The buffers, in the order in which the next Fetch request lists their partitions. A filled buffer moves to the end. */
  readonly #buffers = new Set<PartitionBuffer>();
  readonly #limits = new Map<string, ReadLimits>();
  readonly #failing = new Map<PartitionBuffer, FailingPartition>();
  readonly #paused = new Set<PartitionBuffer>();
  readonly #closed = new AbortController();
  readonly #busy = new Set<string>();
  #isConnecting = false;
  #isScheduled = false;
  #hasRead = false;

  constructor(deps: KafkaDeps, options: FetcherOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#outage = new Outage(deps.logger, 'log_reading', { topics: options.topics });
  }

  /** @param topic the name without the configured prefix. @param onFilled called when records have arrived. */
  open(topic: string, partition: number, position: number, onFilled: () => void): PartitionBuffer {
    const buffer: PartitionBuffer = new PartitionBuffer(
      { topic, clusterTopic: this.#deps.nameOf(topic), partition, position },
      {
        filled: () => {
          if (this.#buffers.delete(buffer)) this.#buffers.add(buffer);
          onFilled();
        },
        drained: () => this.#schedule(),
        released: () => {
          this.#buffers.delete(buffer);
          this.#failing.get(buffer)?.watch.end();
          this.#failing.delete(buffer);
        },
      },
    );
    this.#buffers.add(buffer);
    void this.#loadLimits(topic);
    return buffer;
  }

  close(): void {
    for (const { watch } of this.#failing.values()) watch.end();
    this.#buffers.clear();
    this.#closed.abort();
  }

  /** Waits for a microtask, so that partitions opened at the same time are fetched in one request. */
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
    const sharedClient = this.#options.cluster.current;
    if (sharedClient === undefined) {
      void this.#connect();
      return;
    }
    for (const { wantedPartition, leader } of this.#wanted(sharedClient.client)) {
      if (leader === NO_LEADER_ID)
        void this.#recover(
          sharedClient,
          wantedPartition.buffer,
          new LeaderMissing('the partition has no leader'),
        );
      else if (!this.#busy.has(leader)) void this.#fetchLoop(leader);
    }
  }

  async #connect(): Promise<void> {
    if (this.#isConnecting) return;
    this.#isConnecting = true;
    await this.#retry(CONNECTING, () => this.#options.cluster.get());
    this.#isConnecting = false;
    this.#schedule();
  }

  async #fetchLoop(leader: string): Promise<void> {
    this.#busy.add(leader);
    let failures = 0;
    const backoff = new Backoff(FIRST_BACKOFF_MS, MAX_BACKOFF_MS);
    while (this.#isOpen) {
      const sharedClient = this.#options.cluster.current;
      if (sharedClient === undefined) {
        if (failures > 0) this.#outage.failed(CONNECTING);
        break;
      }
      const wanted = this.#wanted(sharedClient.client)
        .filter((one) => one.leader === leader)
        .map(({ wantedPartition }) => wantedPartition);
      if (wanted.length === 0) break;
      try {
        await this.#fetch(sharedClient, leader, wanted);
        failures = 0;
        backoff.reset();
        this.#outage.recovered(leader);
        this.#outage.recovered(CONNECTING);
      } catch (error) {
        failures += 1;
        if (this.#isOpen) await this.#reconnect({ sharedClient, leader, error, failures, backoff });
      }
    }
    this.#busy.delete(leader);
    this.#outage.recovered(leader);
    this.#schedule();
  }

  async #fetch(
    sharedClient: SharedClient<Cluster>,
    leader: string,
    wanted: readonly WantedPartition[],
  ): Promise<void> {
    const isAnyExcluded = [...this.#buffers].some(
      (buffer) =>
        !wanted.some((one) => one.buffer === buffer) &&
        !this.#paused.has(buffer) &&
        leaderOf(sharedClient.client, buffer) === leader,
    );
    const fetching = sharedClient.use(async (cluster) => {
      const broker = await cluster.findBroker({ nodeId: leader });
      return await fetchFromBroker(broker, wanted, { isAnyExcluded });
    });
    const failures = await withinTimeout(fetching, REQUEST_LIMIT_MS);
    for (const { buffer, error } of failures) void this.#recover(sharedClient, buffer, error);
    for (const { buffer } of wanted) {
      if (!failures.some((failure) => failure.buffer === buffer)) this.#recovered(buffer);
    }
  }

  #recovered(buffer: PartitionBuffer): void {
    this.#hasRead = true;
    this.#failing.get(buffer)?.watch.recovered();
    this.#failing.delete(buffer);
  }

  #wanted(cluster: Cluster): { wantedPartition: WantedPartition; leader: string }[] {
    let total = 0;
    for (const { bufferedBytes } of this.#buffers) total += bufferedBytes;
    const isReaderFull = total >= MAX_READER_BYTES;
    return [...this.#buffers]
      .filter((buffer) => !buffer.isFull && (buffer.isEmpty || !isReaderFull) && !this.#paused.has(buffer))
      .flatMap((buffer) => {
        const limits = this.#limits.get(buffer.topic);
        return limits === undefined
          ? []
          : { wantedPartition: { buffer, limits }, leader: leaderOf(cluster, buffer) };
      });
  }

  async #reconnect({ sharedClient, leader, error, failures, backoff }: BrokerFailure): Promise<void> {
    if (error instanceof StartRefused) {
      this.#fail(error);
      return;
    }
    const { cluster } = this.#options;
    this.#outage.failed(leader, error);
    await this.#pause(backoff.next());
    const isTimeout = error instanceof RequestTimedOut || hasErrorType(error, 'KafkaJSRequestTimeoutError');
    if (isTimeout || failures % REPLACE_AFTER_FAILURES === 0) cluster.replace(sharedClient);
    else await this.#refresh(sharedClient);
    // Starts fetches from other brokers, because the partitions may have a new leader.
    this.#schedule();
  }

  async #recover(sharedClient: SharedClient<Cluster>, buffer: PartitionBuffer, error: Error): Promise<void> {
    if (!this.#isOpen || !this.#buffers.has(buffer) || this.#paused.has(buffer)) return;
    if (hasErrorType(error, ACCESS_DENIED)) return this.#fail(this.#accessDeniedError(buffer, error));
    const failing = this.#failing.get(buffer) ?? newFailingPartition(this.#deps, this.#options, buffer);
    this.#paused.add(buffer);
    const isAdjusted = await this.#adjustPosition(buffer, error, failing.isOutOfRange);
    if (!isAdjusted && this.#isOpen && this.#buffers.has(buffer)) {
      failing.failures += 1;
      failing.isOutOfRange = hasErrorType(error, 'OFFSET_OUT_OF_RANGE');
      this.#failing.set(buffer, failing);
      const isTransient = error instanceof LeaderMissing || hasErrorType(error, ...LEADER_MOVED_ERRORS);
      if (failing.failures > 1 || !isTransient) failing.watch.failed(error);
      await this.#pause(failing.backoff.next());
      if (error instanceof InvalidBatch) await this.#reloadLimits(buffer.topic);
      else if (hasErrorType(error, ...LEADER_MOVED_ERRORS) && failing.failures % REPLACE_AFTER_FAILURES === 0)
        this.#options.cluster.replace(sharedClient);
      else await this.#refresh(sharedClient);
    }
    this.#paused.delete(buffer);
    this.#schedule();
  }

  async #adjustPosition(buffer: PartitionBuffer, error: Error, isRepeated: boolean): Promise<boolean> {
    const { group } = this.#options;
    if (error instanceof Diverged) {
      handleTruncation(this.#deps.logger, group, buffer, buffer.divergenceOffset(error.at));
      return true;
    }
    if (!hasErrorType(error, 'OFFSET_OUT_OF_RANGE')) return false;
    return await adjustPosition(this.#deps, group, buffer, isRepeated).catch(() => false);
  }

  /** Loads the size limits of a topic. The topic is fetched only after its limits are known. */
  async #loadLimits(topic: string): Promise<void> {
    if (!this.#limits.has(topic)) {
      const limits = await this.#retry(topic, () => this.#deps.catalog.limits(topic));
      if (limits !== undefined) this.#limits.set(topic, limits);
    }
    this.#outage.recovered(topic);
    this.#schedule();
  }

  /** Retries after every error. Resolves with undefined if the fetcher is closed. */
  #retry<T>(name: string, work: () => Promise<T>): Promise<T | undefined> {
    return retry(work, {
      signal: this.#closed.signal,
      backoff: new Backoff(FIRST_BACKOFF_MS, MAX_BACKOFF_MS),
      isRetryable: () => true,
      onDelay: (error) => this.#outage.failed(name, error),
    }).catch(() => undefined);
  }

  /** Reloads the size limits of a topic. A batch that exceeded the old limits can be valid with the new limits. */
  async #reloadLimits(topic: string): Promise<void> {
    const { catalog } = this.#deps;
    catalog.evict(topic);
    const limits = await catalog.limits(topic).catch(() => undefined);
    if (limits !== undefined) this.#limits.set(topic, limits);
  }

  async #refresh(sharedClient: SharedClient<Cluster>): Promise<void> {
    const { cluster } = this.#options;
    try {
      if (cluster.current === sharedClient)
        await withinTimeout(
          sharedClient.use((one) => one.refreshMetadata()),
          REQUEST_LIMIT_MS,
        );
    } catch (error) {
      // An unknown topic or a denied access is not a fault of the connections, so they are not replaced.
      if (!hasErrorType(error, 'UNKNOWN_TOPIC_OR_PARTITION', ACCESS_DENIED)) cluster.replace(sharedClient);
    }
  }

  #accessDeniedError({ clusterTopic }: PartitionBuffer, cause: unknown): Error {
    const message = `this process is not authorized to read the topic ${clusterTopic}: ${messageOf(cause)}`;
    return this.#hasRead ? new Error(message, { cause }) : new StartRefused(message, { cause });
  }

  #fail(error: Error): void {
    this.close();
    this.#options.onFailed(error);
  }

  get #isOpen(): boolean {
    return !this.#closed.signal.aborted;
  }

  #pause(ms: number): Promise<void> {
    return pause(ms, this.#closed.signal);
  }
}

interface BrokerFailure {
  readonly sharedClient: SharedClient<Cluster>;
  readonly leader: string;
  readonly error: unknown;
  readonly failures: number;
  readonly backoff: Backoff;
}

interface FailingPartition {
  failures: number;
  isOutOfRange: boolean;
  readonly backoff: Backoff;
  readonly watch: PartitionWatch;
}

function newFailingPartition(
  { partitionHealth }: KafkaDeps,
  { group }: FetcherOptions,
  { topic, partition, fetchOffset }: PartitionBuffer,
): FailingPartition {
  const fields = { ...(group === undefined ? {} : { group }), offset: fetchOffset };
  return {
    failures: 0,
    isOutOfRange: false,
    backoff: new Backoff(FIRST_BACKOFF_MS, MAX_BACKOFF_MS),
    watch: partitionHealth.watch({ operation: 'read', topic, partition }, fields),
  };
}

class LeaderMissing extends Error {}

function leaderOf(cluster: Cluster, { clusterTopic, partition }: PartitionBuffer): string {
  const partitions = cluster.findTopicPartitionMetadata(clusterTopic);
  return String(partitions.find(({ partitionId }) => partitionId === partition)?.leader ?? NO_LEADER_ID);
}
