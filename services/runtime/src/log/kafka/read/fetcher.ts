/**
 * Reads partitions ahead for one reader: one Fetch at a time to each broker that leads any of them. What fails of one
 * partition is tried again while the others are read.
 */
import type { Cluster } from 'kafkajs';
import { messageOf, StartRefused } from '../../../process/errors.ts';
import { Backoff, pause } from '../../../process/waiting.ts';
import { FollowingTail } from '../../followingTail.ts';
import type { TailOptions } from '../../log.ts';
import { isOfType } from '../client/failures.ts';
import { Outage } from '../client/outage.ts';
import { NO_LEADER } from '../client/patches.ts';
import {
  answered,
  NoAnswer,
  REQUEST_LIMIT_MS,
  type Renewable,
  readersCluster,
  type SharedClient,
} from '../client/renewable.ts';
import type { PartitionWatch } from '../client/sickPartitions.ts';
import type { KafkaDeps } from '../topics/catalog.ts';
import { type Asked, Diverged, fetchFrom, type ReadLimits } from './fetchRequest.ts';
import { follow, moveIntoRange } from './moveIntoRange.ts';
import { PartitionBuffer } from './partitionBuffer.ts';
import { BatchRefused } from './recordBatches.ts';

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
  /** Called with what is of no single partition and never passes by itself: a topic that may not be read. */
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
  /** Who was given records last is asked for last. */
  readonly #buffers = new Set<PartitionBuffer>();
  /** By topic, once they are known. */
  readonly #limits = new Map<string, ReadLimits>();
  /** Partitions that have failed, until they are read again. */
  readonly #failing = new Map<PartitionBuffer, FailingPartition>();
  /** Those of them that are not asked for now. */
  readonly #resting = new Set<PartitionBuffer>();
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
    void this.#learn(topic);
    return buffer;
  }

  /** Nothing is delivered from here on. */
  close(): void {
    for (const { watch } of this.#failing.values()) watch.end();
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
    for (const { asked, leader } of this.#wanted(opened.client)) {
      if (leader === NOBODY) void this.#recover(opened, asked.buffer, new Leaderless('there is no leader'));
      else if (!this.#busy.has(leader)) void this.#serve(leader);
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
        .map(({ asked }) => asked);
      if (wanted.length === 0) break;
      try {
        await this.#fetch(opened, leader, wanted);
        failures = 0;
        backoff.reset();
        this.#outage.passed(leader);
        this.#outage.passed(CONNECTING);
      } catch (error) {
        failures += 1;
        if (this.#isOpen) await this.#reconnect({ opened, leader, error, failures, backoff });
      }
    }
    this.#busy.delete(leader);
    this.#outage.passed(leader);
    this.#schedule();
  }

  async #fetch(opened: SharedClient<Cluster>, leader: string, wanted: readonly Asked[]): Promise<void> {
    const isAnyLeftOut = [...this.#buffers].some(
      (buffer) =>
        !wanted.some((one) => one.buffer === buffer) &&
        !this.#resting.has(buffer) &&
        leaderOf(opened.client, buffer) === leader,
    );
    const fetching = opened.use(async (cluster) => {
      const broker = await cluster.findBroker({ nodeId: leader });
      return await fetchFrom(broker, wanted, { isAnyLeftOut });
    });
    const failures = await answered(fetching, REQUEST_LIMIT_MS);
    for (const { buffer, error } of failures) void this.#recover(opened, buffer, error);
    for (const { buffer } of wanted) {
      if (!failures.some((failure) => failure.buffer === buffer)) this.#passed(buffer);
    }
  }

  #passed(buffer: PartitionBuffer): void {
    this.#hasRead = true;
    this.#failing.get(buffer)?.watch.passed();
    this.#failing.delete(buffer);
  }

  /** The buffers that want records, with their leaders. */
  #wanted(cluster: Cluster): { asked: Asked; leader: string }[] {
    let total = 0;
    for (const { bufferedBytes } of this.#buffers) total += bufferedBytes;
    const isReaderFull = total >= MAX_READER_BYTES;
    return [...this.#buffers]
      .filter((buffer) => !buffer.isFull && (buffer.isEmpty || !isReaderFull) && !this.#resting.has(buffer))
      .flatMap((buffer) => {
        const limits = this.#limits.get(buffer.topic);
        return limits === undefined ? [] : { asked: { buffer, limits }, leader: leaderOf(cluster, buffer) };
      });
  }

  async #reconnect({ opened, leader, error, failures, backoff }: BrokerFailure): Promise<void> {
    if (error instanceof StartRefused) {
      this.#fail(error);
      return;
    }
    const { cluster } = this.#options;
    this.#outage.failed(leader, error);
    await this.#pause(backoff.next());
    const isSilent = error instanceof NoAnswer || isOfType(error, 'KafkaJSRequestTimeoutError');
    if (isSilent || failures % RENEW_AFTER === 0) cluster.renew(opened);
    else await this.#refresh(opened);
    // Leaders may have moved to brokers that nobody asks yet.
    this.#schedule();
  }

  /** Of one partition, which is not asked for meanwhile. Never rejects. */
  async #recover(opened: SharedClient<Cluster>, buffer: PartitionBuffer, error: Error): Promise<void> {
    if (!this.#isOpen || !this.#buffers.has(buffer) || this.#resting.has(buffer)) return;
    if (isOfType(error, DENIED)) return this.#fail(this.#denied(buffer, error));
    const failing = this.#failing.get(buffer) ?? failingOf(this.#deps, this.#options, buffer);
    this.#resting.add(buffer);
    const hasMoved = await this.#hasMoved(buffer, error, failing.isOutOfRange);
    if (!hasMoved && this.#isOpen && this.#buffers.has(buffer)) {
      failing.failures += 1;
      failing.isOutOfRange = isOfType(error, 'OFFSET_OUT_OF_RANGE');
      this.#failing.set(buffer, failing);
      const mayPass = error instanceof Leaderless || isOfType(error, ...MOVED);
      if (failing.failures > 1 || !mayPass) failing.watch.failed(error);
      await this.#pause(failing.backoff.next());
      if (error instanceof BatchRefused) await this.#learnAgain(buffer.topic);
      else if (isOfType(error, ...MOVED) && failing.failures % RENEW_AFTER === 0)
        this.#options.cluster.renew(opened);
      else await this.#refresh(opened);
    }
    this.#resting.delete(buffer);
    this.#schedule();
  }

  async #hasMoved(buffer: PartitionBuffer, error: Error, isAgain: boolean): Promise<boolean> {
    const { group } = this.#options;
    if (error instanceof Diverged) {
      follow(this.#deps.logger, group, buffer, buffer.partingAt(error.at));
      return true;
    }
    if (!isOfType(error, 'OFFSET_OUT_OF_RANGE')) return false;
    return await moveIntoRange(this.#deps, group, buffer, isAgain).catch(() => false);
  }

  /** Nothing of a topic is fetched before its limits are known. */
  async #learn(topic: string): Promise<void> {
    const backoff = new Backoff(FIRST_BACKOFF_MS, MAX_BACKOFF_MS);
    while (!this.#limits.has(topic) && this.#isOpen) {
      try {
        this.#limits.set(topic, await this.#deps.catalog.limits(topic));
      } catch (error) {
        this.#outage.failed(topic, error);
        await this.#pause(backoff.next());
      }
    }
    this.#outage.passed(topic);
    this.#schedule();
  }

  /** What was refused may be good by limits that were changed since. */
  async #learnAgain(topic: string): Promise<void> {
    const { catalog } = this.#deps;
    catalog.forget(topic);
    const limits = await catalog.limits(topic).catch(() => undefined);
    if (limits !== undefined) this.#limits.set(topic, limits);
  }

  async #refresh(opened: SharedClient<Cluster>): Promise<void> {
    const { cluster } = this.#options;
    try {
      if (cluster.current === opened)
        await answered(
          opened.use((one) => one.refreshMetadata()),
          REQUEST_LIMIT_MS,
        );
    } catch (error) {
      // New connections would not know the topic either.
      if (!isOfType(error, 'UNKNOWN_TOPIC_OR_PARTITION', DENIED)) cluster.renew(opened);
    }
  }

  #denied({ clusterTopic }: PartitionBuffer, cause: unknown): Error {
    const message = `the brokers do not let this process read the topic ${clusterTopic}: ${messageOf(cause)}`;
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
  readonly opened: SharedClient<Cluster>;
  readonly leader: string;
  readonly error: unknown;
  /** Failures of this broker in a row. */
  readonly failures: number;
  readonly backoff: Backoff;
}

interface FailingPartition {
  /** In a row. */
  failures: number;
  /** The last of them said so. */
  isOutOfRange: boolean;
  readonly backoff: Backoff;
  readonly watch: PartitionWatch;
}

function failingOf(
  { sick }: KafkaDeps,
  { group }: FetcherOptions,
  { topic, partition, fetchOffset }: PartitionBuffer,
): FailingPartition {
  const fields = { ...(group === undefined ? {} : { group }), offset: fetchOffset };
  return {
    failures: 0,
    isOutOfRange: false,
    backoff: new Backoff(FIRST_BACKOFF_MS, MAX_BACKOFF_MS),
    watch: sick.watch({ doing: 'read', topic, partition }, fields),
  };
}

class Leaderless extends Error {}

function leaderOf(cluster: Cluster, { clusterTopic, partition }: PartitionBuffer): string {
  const partitions = cluster.findTopicPartitionMetadata(clusterTopic);
  return String(partitions.find(({ partitionId }) => partitionId === partition)?.leader ?? NOBODY);
}
