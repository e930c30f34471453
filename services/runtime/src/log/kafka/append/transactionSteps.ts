/**
 * The steps of a producer of transactions (KIP-98), each at the broker that leads the partition or coordinates the
 * producer or the group. One that reached a coordinator late, behind its repetition, could begin, change or end the next
 * transaction: without an answer such a step is not repeated.
 */
import type { Broker, Cluster, Kafka } from 'kafkajs';
import { newCluster } from '../client/clusterAccess.ts';
import { isOfType } from '../client/failures.ts';
import { Renewable } from '../client/renewable.ts';
import type { Send } from './partitionProducer.ts';
import { newIdentity, produced, produceRequest, sequenceAfter } from './producerRequests.ts';
import type { ProducerIdentity } from './recordBatch.ts';
import { leaderOf, Tries } from './tries.ts';

/** No try of a step begins behind its deadline, by the process's own clock. */
export interface TransactionSteps {
  /** Fences the older producers of the id. */
  initialise(deadlineMs: number): Promise<void>;
  /** Begins a transaction with the partitions of the sends. */
  begin(sends: readonly Send[], deadlineMs: number): Promise<void>;
  /** @returns the offset of the first record. */
  send(send: Send, deadlineMs: number): Promise<number>;
  /** Makes the group's offsets part of the transaction, or begins one with them. */
  beginOffsets(moved: GroupOffsets, deadlineMs: number): Promise<void>;
  commitOffsets(moved: GroupOffsets, deadlineMs: number): Promise<void>;
  /** Resolves when the outcome is decided. */
  end(outcome: 'commit' | 'abort', deadlineMs: number): Promise<void>;
  /** Waits for what runs. */
  close(): Promise<void>;
}

export interface GroupOffsets {
  /** The group's name on the cluster. */
  readonly group: string;
  readonly topics: { topic: string; partitions: { partition: number; offset: string; metadata: string }[] }[];
}

export interface TransactionsProducer {
  /** The name on the cluster. */
  readonly id: string;
  /** The brokers abort a transaction that takes longer. */
  readonly timeoutMs: number;
}

export function transactionSteps(kafka: Kafka, producer: TransactionsProducer): TransactionSteps {
  return new BrokerSteps(kafka, producer);
}

/** kafkajs's numbers of the kinds of coordinators. */
const GROUP = 0;
const TRANSACTION = 1;
type Coordinated = typeof GROUP | typeof TRANSACTION;

class BrokerSteps implements TransactionSteps {
  readonly #own: TransactionsProducer;
  readonly #tries: Tries;
  /** The topics that it has sent to, as the cluster names them. */
  readonly #topics = new Set<string>();
  /** By partition, of the next record. */
  readonly #sequences = new Map<string, number>();
  readonly #coordinators = new KnownCoordinators();
  #identity: ProducerIdentity | undefined;

  constructor(kafka: Kafka, own: TransactionsProducer) {
    this.#own = own;
    const prepare = (cluster: Cluster) => cluster.addMultipleTargetTopics([...this.#topics]);
    this.#tries = new Tries(new Renewable(() => newCluster(kafka), { prepare }));
  }

  async initialise(deadlineMs: number): Promise<void> {
    const { id: transactionalId, timeoutMs: transactionTimeout } = this.#own;
    this.#identity = await this.#at(TRANSACTION, transactionalId, deadlineMs, (broker) =>
      newIdentity(broker, { transactionalId, transactionTimeout }),
    );
  }

  async begin(sends: readonly Send[], deadlineMs: number): Promise<void> {
    const partitions = new Map<string, Set<number>>();
    for (const { topic, partition } of sends) {
      partitions.set(topic, (partitions.get(topic) ?? new Set()).add(partition));
    }
    const topics = [...partitions].map(([topic, own]) => ({ topic, partitions: [...own] }));
    await this.#atOwn(deadlineMs, (broker, own) => broker.addPartitionsToTxn({ ...own, topics }));
  }

  async send({ topic, partition, records }: Send, deadlineMs: number): Promise<number> {
    this.#topics.add(topic);
    const key = `${topic}/${partition}`;
    const sequence = this.#sequences.get(key) ?? 0;
    const batch = {
      records,
      producer: this.#known(),
      sequence,
      isTransactional: true,
      timestampMs: Date.now(),
    };
    const request = await produceRequest({
      ...{ topic, partition, batch, transactionalId: this.#own.id, waitMs: this.#own.timeoutMs },
    });
    const baseOffset = await this.#tries.until({
      find: async (cluster) => {
        await cluster.addMultipleTargetTopics([topic]);
        return await leaderOf(cluster, topic, partition);
      },
      ask: (broker) => produced(broker, request),
      deadlineMs,
    });
    this.#sequences.set(key, sequenceAfter(sequence, records.length));
    return baseOffset;
  }

  async beginOffsets({ group: groupId }: GroupOffsets, deadlineMs: number): Promise<void> {
    await this.#atOwn(deadlineMs, (broker, own) => broker.addOffsetsToTxn({ ...own, groupId }));
  }

  async commitOffsets({ group: groupId, topics }: GroupOffsets, deadlineMs: number): Promise<void> {
    const own = this.#asAsked();
    await this.#at(GROUP, groupId, deadlineMs, (broker) =>
      broker.txnOffsetCommit({ ...own, groupId, topics }),
    );
  }

  async end(outcome: 'commit' | 'abort', deadlineMs: number): Promise<void> {
    const transactionResult = outcome === 'commit';
    await this.#atOwn(deadlineMs, (broker, own) => broker.endTxn({ ...own, transactionResult }));
  }

  close(): Promise<void> {
    return this.#tries.close();
  }

  async #atOwn(
    deadlineMs: number,
    ask: (broker: CoordinatingBroker, own: AskingProducer) => Promise<unknown>,
  ): Promise<void> {
    const own = this.#asAsked();
    await this.#at(TRANSACTION, this.#own.id, deadlineMs, (broker) => ask(broker, own));
  }

  async #at<T>(
    kind: Coordinated,
    name: string,
    deadlineMs: number,
    ask: (broker: CoordinatingBroker) => Promise<T>,
  ): Promise<T> {
    const coordinators = this.#coordinators;
    return await this.#tries.until({
      find: (cluster) => coordinators.find(cluster, kind, name),
      ask: async (broker) => {
        try {
          return await ask(broker as CoordinatingBroker);
        } catch (error) {
          // Whatever it is, to ask again where it is costs one request.
          if (!isOfType(error, 'CONCURRENT_TRANSACTIONS')) coordinators.forget();
          throw error;
        }
      },
      isHarmfulLate: true,
      deadlineMs,
    });
  }

  #known(): ProducerIdentity {
    if (this.#identity === undefined) throw new Error(`the producer ${this.#own.id} is not initialised`);
    return this.#identity;
  }

  #asAsked(): AskingProducer {
    const { producerId, epoch } = this.#known();
    return { transactionalId: this.#own.id, producerId: String(producerId), producerEpoch: epoch };
  }
}

/** Found once, and again when one has moved or its connection is gone: kafkajs asks before each step. */
class KnownCoordinators {
  readonly #known = new Map<string, Broker>();
  /** A broker is of use only with the client that found it. */
  #foundBy: Cluster | undefined;

  async find(cluster: Cluster, kind: Coordinated, name: string): Promise<Broker> {
    if (this.#foundBy !== cluster) this.forget();
    const key = `${kind} ${name}`;
    const known = this.#known.get(key);
    if (known?.isConnected() === true) return known;
    const found = await (cluster as CoordinatedCluster).findGroupCoordinator({
      groupId: name,
      coordinatorType: kind,
    });
    this.#foundBy = cluster;
    this.#known.set(key, found);
    return found;
  }

  forget(): void {
    this.#known.clear();
  }
}

/** What is missing in kafkajs's types. */
interface CoordinatedCluster extends Cluster {
  findGroupCoordinator(asked: {
    readonly groupId: string;
    readonly coordinatorType?: Coordinated;
  }): Promise<Broker>;
}

interface AskingProducer {
  readonly transactionalId: string;
  readonly producerId: string;
  readonly producerEpoch: number;
}

interface CoordinatingBroker extends Broker {
  addPartitionsToTxn(
    asked: AskingProducer & { topics: { topic: string; partitions: number[] }[] },
  ): Promise<unknown>;
  addOffsetsToTxn(asked: AskingProducer & { groupId: string }): Promise<unknown>;
  txnOffsetCommit(
    asked: AskingProducer & { groupId: string; topics: GroupOffsets['topics'] },
  ): Promise<unknown>;
  endTxn(asked: AskingProducer & { transactionResult: boolean }): Promise<unknown>;
}
