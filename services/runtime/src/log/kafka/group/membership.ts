/**
 * Joins a Kafka consumer group and stays a member. Uses a kafkajs consumer that never fetches records. After a crash of this
 * consumer, creates a new consumer. kafkajs's own restarts are disabled, because they are unreliable and can even start a
 * stopped consumer.
 */
import type { Consumer, Kafka } from 'kafkajs';
import type { Logger } from '../../../process/logger.ts';
import { Backoff, Failure, retry, settledWithin } from '../../../process/waiting.ts';
import { skipOffsetFetch } from '../client/clusterAccess.ts';
import { hasErrorType } from '../client/errors.ts';
import { Outage } from '../client/outage.ts';
import { coPartitions } from './coPartitions.ts';

export interface MembershipOptions {
  readonly kafka: Kafka;
  readonly logger: Logger;
  /** Name of the group with the configured prefix. The names of the topics also have the prefix. */
  readonly group: string;
  readonly topics: readonly string[];
  readonly partitions: readonly number[];
  /** Returns the partitions that the member owns. The group leader uses them for the next assignment. */
  owned(): readonly number[];
  /** Reports a join and the assigned partition numbers. The member owns the partitions with these numbers in every topic. */
  onJoin(memberId: string, partitions: readonly number[]): void;
  onHeartbeat(memberId: string, generation: number): void;
  /** Reports that the member's session has ended. The member then owns no partitions until the next call of `onJoin`. */
  onLost(): void;
  onFailed(error: unknown): void;
}

/** Time without a heartbeat after which the brokers assign the member's partitions to other members. */
export const SESSION_MS = 10_000;
/** Maximum time that a rebalance waits for a member to join. */
export const REBALANCE_MS = 10_000;
/** Interval of the heartbeats. A member learns about a rebalance from its next heartbeat. */
const HEARTBEAT_MS = 500;
const RETRY = { initialRetryTime: 50, multiplier: 2, factor: 0.2, maxRetryTime: 1000, retries: 6 };

/**
 * Maximum time without a response to a join or heartbeat. The member then looks up the coordinator again, because kafkajs alone
 * would retry a dead coordinator for 90 s.
 *
 * The limit must be longer than a rebalance, because a member sends no heartbeats during a rebalance.
 */
const SILENCE_LIMIT_MS = SESSION_MS + 2 * REBALANCE_MS;
const SILENCE_CHECK_INTERVAL_MS = 1000;
/** Maximum time to wait for the response to the leave request. A dead coordinator does not respond. */
const LEAVE_LIMIT_MS = 2000;

/**
 * Errors that a retry cannot fix. Authentication errors are not in this list, because kafkajs also reports some temporary
 * failures as authentication errors.
 */
const PERMANENT_ERRORS = [
  'INCONSISTENT_GROUP_PROTOCOL',
  'INVALID_GROUP_ID',
  'INVALID_SESSION_TIMEOUT',
  'GROUP_AUTHORIZATION_FAILED',
  'TOPIC_AUTHORIZATION_FAILED',
];

export class Membership {
  readonly #options: MembershipOptions;
  readonly #outage: Outage;
  readonly #closing = new AbortController();
  readonly #ended: Promise<void>;
  readonly #backoff = new Backoff();

  constructor(options: MembershipOptions) {
    this.#options = options;
    this.#outage = new Outage(options.logger, 'log_membership', { group: options.group });
    const { group, onLost, onFailed } = options;
    const session = (): Promise<void> =>
      this.#session().catch((error: unknown) => {
        onLost();
        throw error;
      });
    this.#ended = retry(session, {
      signal: this.#closing.signal,
      backoff: this.#backoff,
      isRetryable: (error) => !hasErrorType(error, ...PERMANENT_ERRORS),
      onDelay: (error) => this.#outage.failed(group, error),
    }).catch((error) => {
      if (this.#isOpen) onFailed(error);
    });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#ended;
  }

  async #session(): Promise<void> {
    const { kafka, group, topics, partitions, owned } = this.#options;
    const assigner = coPartitions(owned, partitions);
    let skipOffsets = (): void => undefined;
    const consumer = kafka.consumer({
      groupId: group,
      partitionAssigners: [
        (config) => {
          skipOffsets = () => skipOffsetFetch(config.cluster, group, topics);
          return assigner(config);
        },
      ],
      sessionTimeout: SESSION_MS,
      rebalanceTimeout: REBALANCE_MS,
      heartbeatInterval: HEARTBEAT_MS / 2,
      maxWaitTimeInMs: HEARTBEAT_MS,
      allowAutoTopicCreation: false,
      retry: { ...RETRY, restartOnFailure: async () => false },
    });
    const { crashed, end } = this.#listen(consumer, () => skipOffsets());
    const joining = joinGroup(consumer, topics);
    try {
      await Promise.race([crashed, joining]);
      await Promise.race([crashed, this.#untilClosing()]);
    } finally {
      end();
      // Waits until the consumer has joined. Before the join, kafkajs cannot send the leave request that frees the partitions.
      const leave = () => consumer.disconnect().catch(() => undefined);
      await settledWithin(joining.then(leave, leave), LEAVE_LIMIT_MS);
    }
  }

  /** Listens to the consumer until `end`. `crashed` rejects if the consumer crashes or receives no response for too long. */
  #listen(consumer: Consumer, onJoined: () => void): { crashed: Promise<never>; end(): void } {
    const { group, topics, onJoin, onHeartbeat } = this.#options;
    const { failed: crashed, fail } = new Failure();
    let [isEnded, lastResponseMs] = [false, performance.now()];
    const silenceTimer = setInterval(() => {
      if (performance.now() - lastResponseMs < SILENCE_LIMIT_MS) return;
      fail(new Error(`no response from the group coordinator for ${SILENCE_LIMIT_MS / 1000} s`));
    }, SILENCE_CHECK_INTERVAL_MS);
    consumer.on(consumer.events.CRASH, ({ payload }) => fail(payload.error));
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      if (isEnded) return;
      lastResponseMs = performance.now();
      // The topics are paused before the first fetch, so that the consumer never fetches records.
      consumer.pause(topics.map((topic) => ({ topic })));
      onJoined();
      const [first = ''] = topics;
      onJoin(payload.memberId, payload.memberAssignment[first] ?? []);
    });
    consumer.on(consumer.events.HEARTBEAT, ({ payload }) => {
      if (isEnded) return;
      lastResponseMs = performance.now();
      this.#backoff.reset();
      this.#outage.recovered(group);
      onHeartbeat(payload.memberId, payload.groupGenerationId);
    });
    const end = () => {
      isEnded = true;
      clearInterval(silenceTimer);
    };
    return { crashed, end };
  }

  get #isOpen(): boolean {
    return !this.#closing.signal.aborted;
  }

  #untilClosing(): Promise<void> {
    const { signal } = this.#closing;
    return new Promise((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }
}

async function joinGroup(consumer: Consumer, topics: readonly string[]): Promise<void> {
  await consumer.connect();
  await consumer.subscribe({ topics: [...topics], fromBeginning: true });
  await consumer.run({ autoCommit: false, eachBatch: async () => {} });
}
