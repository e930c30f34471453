/**
 * Requests of a transactional Kafka producer (KIP-98). A coordinator request is retried only if the coordinator has answered it
 * with an error. After a timeout, it is not retried, because a late duplicate could start, change, or end the next transaction.
 */
import type { Broker, Cluster, Kafka } from 'kafkajs';
import { createCluster } from '../client/clusterAccess.ts';
import { hasErrorType } from '../client/errors.ts';
import { ReplaceableClient } from '../client/replaceableClient.ts';
import { BrokerRetries, leaderOf } from './brokerRetries.ts';
import type { PartitionBatch } from './partitionProducer.ts';
import { initProducerId, nextSequence, produceRequest, sendProduceRequest } from './producerRequests.ts';
import type { ProducerIdentity } from './recordBatch.ts';

/** Steps of a transaction. A `deadlineMs` is the `performance.now()` time after which a step is not attempted again. */
export interface TransactionSteps {
  initialize(deadlineMs: number): Promise<void>;
  begin(batches: readonly PartitionBatch[], deadlineMs: number): Promise<void>;
  /** Sends a batch inside the transaction. Returns the offset of the first record. */
  send(batch: PartitionBatch, deadlineMs: number): Promise<number>;
  /** Adds the offsets of a consumer group to the transaction. Starts a transaction if none is open. */
  beginOffsets(offsets: GroupOffsets, deadlineMs: number): Promise<void>;
  commitOffsets(offsets: GroupOffsets, deadlineMs: number): Promise<void>;
  /** Ends the transaction. Resolves after the transaction coordinator has stored the outcome. */
  end(outcome: 'commit' | 'abort', deadlineMs: number): Promise<void>;
  close(): Promise<void>;
}

export interface GroupOffsets {
  readonly group: string;
  readonly topics: { topic: string; partitions: { partition: number; offset: string; metadata: string }[] }[];
}

export interface ProducerOptions {
  readonly id: string;
  readonly timeoutMs: number;
}

export function transactionSteps(kafka: Kafka, producer: ProducerOptions): TransactionSteps {
  return new BrokerSteps(kafka, producer);
}

const GROUP = 0;
const TRANSACTION = 1;
type CoordinatorType = typeof GROUP | typeof TRANSACTION;

class BrokerSteps implements TransactionSteps {
  readonly #producer: ProducerOptions;
  readonly #retries: BrokerRetries;
  readonly #topics = new Set<string>();
  readonly #sequences = new Map<string, number>();
  readonly #coordinators = new CoordinatorCache();
  #identity: ProducerIdentity | undefined;

  constructor(kafka: Kafka, own: ProducerOptions) {
    this.#producer = own;
    const prepare = (cluster: Cluster) => cluster.addMultipleTargetTopics([...this.#topics]);
    this.#retries = new BrokerRetries(new ReplaceableClient(() => createCluster(kafka), { prepare }));
  }

  async initialize(deadlineMs: number): Promise<void> {
    const { id: transactionalId, timeoutMs: transactionTimeout } = this.#producer;
    this.#identity = await this.#sendToCoordinator(TRANSACTION, transactionalId, deadlineMs, (broker) =>
      initProducerId(broker, { transactionalId, transactionTimeout }),
    );
  }

  async begin(batches: readonly PartitionBatch[], deadlineMs: number): Promise<void> {
    const partitions = new Map<string, Set<number>>();
    for (const { topic, partition } of batches) {
      partitions.set(topic, (partitions.get(topic) ?? new Set()).add(partition));
    }
    const topics = [...partitions].map(([topic, own]) => ({ topic, partitions: [...own] }));
    await this.#sendToTransactionCoordinator(deadlineMs, (broker, own) =>
      broker.addPartitionsToTxn({ ...own, topics }),
    );
  }

  async send({ topic, partition, records }: PartitionBatch, deadlineMs: number): Promise<number> {
    this.#topics.add(topic);
    const key = `${topic}/${partition}`;
    const sequence = this.#sequences.get(key) ?? 0;
    const batch = {
      records,
      producer: this.#initializedIdentity(),
      sequence,
      isTransactional: true,
      timestampMs: Date.now(),
    };
    const request = await produceRequest({
      ...{ topic, partition, batch, transactionalId: this.#producer.id, waitMs: this.#producer.timeoutMs },
    });
    const baseOffset = await this.#retries.run({
      find: async (cluster) => {
        await cluster.addMultipleTargetTopics([topic]);
        return await leaderOf(cluster, topic, partition);
      },
      send: (broker) => sendProduceRequest(broker, request),
      deadlineMs,
    });
    this.#sequences.set(key, nextSequence(sequence, records.length));
    return baseOffset;
  }

  async beginOffsets({ group: groupId }: GroupOffsets, deadlineMs: number): Promise<void> {
    await this.#sendToTransactionCoordinator(deadlineMs, (broker, own) =>
      broker.addOffsetsToTxn({ ...own, groupId }),
    );
  }

  async commitOffsets({ group: groupId, topics }: GroupOffsets, deadlineMs: number): Promise<void> {
    const own = this.#producerFields();
    await this.#sendToCoordinator(GROUP, groupId, deadlineMs, (broker) =>
      broker.txnOffsetCommit({ ...own, groupId, topics }),
    );
  }

  async end(outcome: 'commit' | 'abort', deadlineMs: number): Promise<void> {
    const transactionResult = outcome === 'commit';
    await this.#sendToTransactionCoordinator(deadlineMs, (broker, own) =>
      broker.endTxn({ ...own, transactionResult }),
    );
  }

  close(): Promise<void> {
    return this.#retries.close();
  }

  async #sendToTransactionCoordinator(
    deadlineMs: number,
    send: (broker: CoordinatingBroker, own: ProducerFields) => Promise<unknown>,
  ): Promise<void> {
    const own = this.#producerFields();
    await this.#sendToCoordinator(TRANSACTION, this.#producer.id, deadlineMs, (broker) => send(broker, own));
  }

  async #sendToCoordinator<T>(
    kind: CoordinatorType,
    name: string,
    deadlineMs: number,
    send: (broker: CoordinatingBroker) => Promise<T>,
  ): Promise<T> {
    const coordinators = this.#coordinators;
    return await this.#retries.run({
      find: (cluster) => coordinators.find(cluster, kind, name),
      send: async (broker) => {
        try {
          return await send(broker as CoordinatingBroker);
        } catch (error) {
          if (!hasErrorType(error, 'CONCURRENT_TRANSACTIONS')) coordinators.clear();
          throw error;
        }
      },
      needsResponseBeforeRetry: true,
      deadlineMs,
    });
  }

  #initializedIdentity(): ProducerIdentity {
    if (this.#identity === undefined) throw new Error(`the producer ${this.#producer.id} is not initialised`);
    return this.#identity;
  }

  #producerFields(): ProducerFields {
    const { producerId, epoch } = this.#initializedIdentity();
    return { transactionalId: this.#producer.id, producerId: String(producerId), producerEpoch: epoch };
  }
}

/** Caches coordinators until they move or disconnect, because kafkajs would look up the coordinator for each request. */
class CoordinatorCache {
  readonly #brokers = new Map<string, Broker>();
  /** Client of the cached brokers. A broker object works only with the client that created the object. */
  #cluster: Cluster | undefined;

  async find(cluster: Cluster, kind: CoordinatorType, name: string): Promise<Broker> {
    if (this.#cluster !== cluster) this.clear();
    const key = `${kind} ${name}`;
    const cached = this.#brokers.get(key);
    if (cached?.isConnected() === true) return cached;
    const found = await (cluster as ClusterInternals).findGroupCoordinator({
      groupId: name,
      coordinatorType: kind,
    });
    this.#cluster = cluster;
    this.#brokers.set(key, found);
    return found;
  }

  clear(): void {
    this.#brokers.clear();
  }
}

interface ClusterInternals extends Cluster {
  findGroupCoordinator(request: {
    readonly groupId: string;
    readonly coordinatorType?: CoordinatorType;
  }): Promise<Broker>;
}

interface ProducerFields {
  readonly transactionalId: string;
  readonly producerId: string;
  readonly producerEpoch: number;
}

interface CoordinatingBroker extends Broker {
  addPartitionsToTxn(
    request: ProducerFields & { topics: { topic: string; partitions: number[] }[] },
  ): Promise<unknown>;
  addOffsetsToTxn(request: ProducerFields & { groupId: string }): Promise<unknown>;
  txnOffsetCommit(
    request: ProducerFields & { groupId: string; topics: GroupOffsets['topics'] },
  ): Promise<unknown>;
  endTxn(request: ProducerFields & { transactionResult: boolean }): Promise<unknown>;
}
