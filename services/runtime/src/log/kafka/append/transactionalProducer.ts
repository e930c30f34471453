/** Appends to several partitions and moves offsets in one transaction, while no newer producer has the same id. */
import type { Transaction as KafkaTransaction, Message, Producer } from 'kafkajs';
import { Fenced, Unavailable } from '../../../process/errors.ts';
import type { Appended, Transaction, TransactionalProducer } from '../../log.ts';
import { asFailure } from '../client/failures.ts';
import { answered, connectedOf } from '../client/renewable.ts';
import { withRetries } from '../client/retries.ts';
import type { KafkaDeps } from '../topics/catalog.ts';
import { type PreparedTransaction, preparedTransaction } from './preparedTransaction.ts';
import {
  ALL_IN_SYNC,
  abandon,
  baseOffsetOf,
  compressionOf,
  messageFor,
  namedPartition,
  SEND_RETRY,
  type Send,
} from './producers.ts';

type TransactionDeps = Pick<KafkaDeps, 'kafka' | 'catalog' | 'nameOf'>;

/**
 * Fences older producers of the id, and waits until what they left is committed or aborted.
 * @throws Unavailable when the brokers cannot do that now.
 */
export async function openTransactionalProducer(
  deps: TransactionDeps,
  transactionalId: string,
): Promise<KafkaTransactionalProducer> {
  const id = deps.nameOf(transactionalId);
  const create = () =>
    deps.kafka.producer({
      transactionalId: id,
      transactionTimeout: TRANSACTION_TIMEOUT_MS,
      allowAutoTopicCreation: false,
      createPartitioner: namedPartition,
      retry: SEND_RETRY,
    });
  const producer = await connectedOf(create);
  try {
    // kafkajs initialises the producer with its first transaction, of which the brokers know nothing until it is used.
    const first = await answered(producer.transaction(), INITIALISE_LIMIT_MS);
    return new KafkaTransactionalProducer(deps, id, producer, first);
  } catch (error) {
    producer.disconnect().catch(() => undefined);
    throw asFailure(error, `the transactional producer ${id} cannot be initialised`);
  }
}

/** Includes the wait for what an older producer has begun to commit or abort. */
const INITIALISE_LIMIT_MS = 12_000;

/** The brokers then abort an abandoned transaction; until then `read_committed` readers wait behind it. */
const TRANSACTION_TIMEOUT_MS = 15_000;

/** One commit takes no longer. Below the brokers' timeout, so that a slow producer does not take itself for fenced. */
const COMMIT_LIMIT_MS = 12_000;

const ABORT_LIMIT_MS = 2000;

export class KafkaTransactionalProducer implements TransactionalProducer {
  /** Resolves when it is closed. */
  readonly closed: Promise<void>;
  readonly #deps: TransactionDeps;
  readonly #id: string;
  readonly #producer: Producer;
  readonly #resolveClosed: () => void;
  /** Begun, and not used yet. */
  #next: KafkaTransaction | undefined;
  /** Settles when the commit before has; never rejects. */
  #last: Promise<unknown> = Promise.resolve();
  #broken: Error | undefined;
  #isClosed = false;

  constructor(deps: TransactionDeps, id: string, producer: Producer, first: KafkaTransaction) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.closed = promise;
    this.#resolveClosed = resolve;
    this.#deps = deps;
    this.#id = id;
    this.#producer = producer;
    this.#next = first;
  }

  commit(transaction: Transaction): Promise<readonly Appended[]> {
    const committed = this.#last.then(() => this.#commit(transaction));
    this.#last = committed.catch(() => undefined);
    return committed;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#last;
    await this.#producer.disconnect().catch(() => undefined);
    this.#resolveClosed();
  }

  async #commit(transaction: Transaction): Promise<readonly Appended[]> {
    if (this.#isClosed) throw new Error(`the transactional producer ${this.#id} is closed`);
    if (this.#broken !== undefined) throw this.#unusable(this.#broken);
    const prepared = await preparedTransaction(this.#deps, transaction);
    prepared.checkOwned();
    const running = new RunningTransaction(this.#next ?? (await this.#begin()), prepared);
    this.#next = undefined;
    try {
      return await answered(running.run(), COMMIT_LIMIT_MS);
    } catch (error) {
      const failure = asFailure(error, `the transaction of ${this.#id} did not commit for certain`);
      this.#broken = failure;
      await running.giveUp();
      this.#producer.disconnect().catch(() => undefined);
      throw failure;
    }
  }

  async #begin(): Promise<KafkaTransaction> {
    try {
      return await this.#producer.transaction();
    } catch (error) {
      throw asFailure(error, `${this.#id} cannot begin a transaction`);
    }
  }

  #unusable(cause: Error): Error {
    if (cause instanceof Fenced) return cause;
    return new Unavailable(
      `an earlier transaction of ${this.#id} failed: a new producer must be opened; nothing was written`,
      { cause },
    );
  }
}

/** One transaction from its first send to its end; given up, it sends nothing more. */
class RunningTransaction {
  readonly #transaction: KafkaTransaction;
  readonly #prepared: PreparedTransaction;
  #sending: readonly Message[] = [];
  #isGivenUp = false;

  constructor(transaction: KafkaTransaction, prepared: PreparedTransaction) {
    this.#transaction = transaction;
    this.#prepared = prepared;
  }

  async run(): Promise<readonly Appended[]> {
    const { appends, offsets, checkOwned } = this.#prepared;
    const appended: Appended[] = [];
    for (const sends of appends) appended.push(await this.#append(sends));
    for (const moved of offsets) {
      // The brokers refuse this, too, until the transaction before is through, and kafkajs does not try again.
      await withRetries(OFFSETS_RETRY, () => this.#unlessGivenUp(() => this.#transaction.sendOffsets(moved)));
    }
    checkOwned();
    await this.#unlessGivenUp(() => this.#transaction.commit());
    return appended;
  }

  /** Aborts where that is still possible. The brokers do it after their timeout, or for the next producer of the id. */
  async giveUp(): Promise<void> {
    this.#isGivenUp = true;
    abandon(this.#sending);
    if (!this.#transaction.isActive()) return;
    await answered(this.#transaction.abort(), ABORT_LIMIT_MS).catch(() => undefined);
  }

  async #append(sends: readonly Send[]): Promise<Appended> {
    let first: number | undefined;
    for (const send of sends) {
      const messages = send.records.map((record) => messageFor(record, send.partition));
      this.#sending = messages;
      const answers = await this.#unlessGivenUp(() =>
        this.#transaction.send({
          topic: send.topic,
          messages,
          compression: compressionOf(send),
          acks: ALL_IN_SYNC,
        }),
      );
      const baseOffset = baseOffsetOf(answers, send);
      first ??= baseOffset;
    }
    if (first === undefined) throw new Error('an append without records');
    return { baseOffset: first };
  }

  #unlessGivenUp<T>(step: () => Promise<T>): Promise<T> {
    return this.#isGivenUp ? Promise.reject(new Error('the transaction was given up')) : step();
  }
}

const OFFSETS_RETRY = {
  doing: 'the offsets cannot be part of the transaction',
  limitMs: COMMIT_LIMIT_MS,
};
