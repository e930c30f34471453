/**
 * Keeps one member in its group by a kafkajs consumer that never fetches: all it does is join, heartbeat and leave. A
 * consumer that crashed is replaced by a new one here, since kafkajs gives up after some outages and its own restart
 * may come after the stop.
 */
import type { Consumer, Kafka } from 'kafkajs';
import type { Logger } from '../../../process/logger.ts';
import { Backoff, Failure, pause, settledWithin } from '../../../process/waiting.ts';
import { skipOffsetFetch } from '../client/clusterAccess.ts';
import { hasErrorType } from '../client/errors.ts';
import { Outage } from '../client/outage.ts';
import { coPartitions } from './coPartitions.ts';

export interface MembershipOptions {
  readonly kafka: Kafka;
  readonly logger: Logger;
  /** Group and topics as the cluster names them. */
  readonly group: string;
  readonly topics: readonly string[];
  /** Of each topic, those that the group shares. */
  readonly partitions: readonly number[];
  /** The partitions that the member has now, for whoever leads the group. */
  owned(): readonly number[];
  /** Partitions were assigned, of all topics alike. */
  onJoin(memberId: string, partitions: readonly number[]): void;
  onHeartbeat(memberId: string, generation: number): void;
  /** The session is over: nothing is owned until the next join. */
  onLost(): void;
  /** A failure that no other try will repair. */
  onFailed(error: unknown): void;
}

/** A member without a heartbeat for so long is dead; its partitions go to others. */
export const SESSION_MS = 10_000;
/** In a rebalance the others wait so long for a member that does not come back. */
export const REBALANCE_MS = 10_000;
/** kafkajs sleeps so long between two heartbeats, with all partitions paused; a rebalance is noticed so late. */
const HEARTBEAT_MS = 250;
const RETRY = { initialRetryTime: 50, multiplier: 2, factor: 0.2, maxRetryTime: 1000, retries: 6 };

/**
 * So long without a join or an answer to a heartbeat, and the coordinator is looked for anew. kafkajs asks one that is gone without
 * a word (a machine without power) for a minute and a half. Longer than a rebalance, in which there are no heartbeats.
 */
const SILENCE_LIMIT_MS = SESSION_MS + 2 * REBALANCE_MS;
const SILENCE_CHECK_INTERVAL_MS = 1000;
/** A coordinator that is gone does not hear that the member leaves. */
const LEAVE_LIMIT_MS = 2000;

/** Not a failed sign-in: kafkajs calls so whatever goes wrong meanwhile, and a broker may refuse what it takes later. */
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
    this.#ended = this.#run();
  }

  /** Leaves the group. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    while (this.#isOpen) {
      try {
        await this.#session();
      } catch (error) {
        this.#options.onLost();
        if (!this.#isOpen) return;
        if (hasErrorType(error, ...PERMANENT_ERRORS)) {
          this.#options.onFailed(error);
          return;
        }
        this.#outage.failed(this.#options.group, error);
        await pause(this.#backoff.next(), this.#closing.signal);
      }
    }
  }

  /** Runs from joining to leaving. @throws what the consumer crashed with. */
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
      // Not before: kafkajs would not leave, join all the same, and keep partitions that nobody works on.
      const leave = () => consumer.disconnect().catch(() => undefined);
      await settledWithin(joining.then(leave, leave), LEAVE_LIMIT_MS);
    }
  }

  /** `crashed` rejects when the consumer crashes or hears nothing more; after `end` nothing of it is told. */
  #listen(consumer: Consumer, onJoined: () => void): { crashed: Promise<never>; end(): void } {
    const { group, topics, onJoin, onHeartbeat } = this.#options;
    const { failed: crashed, fail } = new Failure();
    let [isEnded, lastResponseMs] = [false, performance.now()];
    const silenceTimer = setInterval(() => {
      if (performance.now() - lastResponseMs < SILENCE_LIMIT_MS) return;
      fail(new Error(`nothing was heard of the group for ${SILENCE_LIMIT_MS / 1000} s`));
    }, SILENCE_CHECK_INTERVAL_MS);
    consumer.on(consumer.events.CRASH, ({ payload }) => fail(payload.error));
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      if (isEnded) return;
      lastResponseMs = performance.now();
      // Called before the first fetch, so that there is none.
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

/** Resolves when the group was joined: before that kafkajs cannot leave it. */
async function joinGroup(consumer: Consumer, topics: readonly string[]): Promise<void> {
  await consumer.connect();
  await consumer.subscribe({ topics: [...topics], fromBeginning: true });
  await consumer.run({ autoCommit: false, eachBatch: async () => {} });
}
