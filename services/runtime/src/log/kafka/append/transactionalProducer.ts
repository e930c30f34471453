/** Appends to several partitions and moves offsets in one transaction, while no newer producer has the same id. */
import type { Transaction as KafkaTransaction, Producer, ProducerRecord } from 'kafkajs';
import { Fenced, Unavailable } from '../../../process/errors.ts';
import { checkCommitted, type OwnCommit, ownCommit } from '../../groupPartition.ts';
import type { Appended, NewRecord, Transaction, TransactionalProducer } from '../../log.ts';
import { asFailure } from '../client/failures.ts';
import { answered, connectedOf } from '../client/renewable.ts';
import { withRetries } from '../client/retries.ts';
import { PartitionBuffer } from '../read/partitionBuffer.ts';
import type { KafkaDeps } from '../topics/catalog.ts';
import { batchRoom, checkedBytes } from './batchBytes.ts';
import type { Send } from './partitionProducer.ts';
import { abandon, baseOffsetOf, everyProducer, requestOf } from './transactionalSends.ts';

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
      ...everyProducer(),
      transactionalId: id,
      transactionTimeout: TRANSACTION_TIMEOUT_MS,
    });
  const producer = await connectedOf(create);
  // kafkajs initialises the producer with its first transaction, of which the brokers know nothing until it is used.
  const initialised = producer.transaction();
  try {
    return new KafkaTransactionalProducer(
      deps,
      id,
      producer,
      await answered(initialised, INITIALISE_LIMIT_MS),
    );
  } catch (error) {
    // Once it is through: kafkajs connects again for as long as it tries.
    const disconnect = () => producer.disconnect().catch(() => undefined);
    initialised.then(disconnect, disconnect);
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
  /** Not answered yet. */
  #sending: ProducerRecord | undefined;
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

  /**
   * Aborts where that is still possible. The brokers do it after their timeout, or for the next producer of the id. A send
   * under way could arrive after our abort and begin a transaction that nobody ends; the next producer fences it.
   */
  async giveUp(): Promise<void> {
    this.#isGivenUp = true;
    if (this.#sending !== undefined) return abandon(this.#sending);
    if (!this.#transaction.isActive()) return;
    await answered(this.#transaction.abort(), ABORT_LIMIT_MS).catch(() => undefined);
  }

  async #append(sends: readonly Send[]): Promise<Appended> {
    let first: number | undefined;
    for (const send of sends) {
      const request = requestOf(send);
      this.#sending = request;
      const answers = await this.#unlessGivenUp(() => this.#transaction.send(request));
      this.#sending = undefined;
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

/** A transaction that was checked before anything of it is sent, in the shape that kafkajs sends. */
interface PreparedTransaction {
  /** The sends of each append, in order. An append has several only if it exceeds a batch. */
  readonly appends: readonly (readonly Send[])[];
  readonly offsets: readonly GroupOffsets[];
  /** @throws Fenced when a partition is another's by now. */
  checkOwned(): void;
}

/** kafkajs sends the metadata that its types leave out. */
interface GroupOffsets {
  readonly consumerGroupId: string;
  readonly topics: { topic: string; partitions: { partition: number; offset: string; metadata: string }[] }[];
}

/** @throws RecordTooLarge when a record exceeds its topic's limit; anything else it throws is a bug of the caller. */
async function preparedTransaction(
  deps: TransactionDeps,
  { appends, commits = [] }: Transaction,
): Promise<PreparedTransaction> {
  const prepared = await Promise.all(
    appends.map(async ({ topic, partition, records }) => {
      const limits = await deps.catalog.limits(topic);
      const bytes = checkedBytes(limits, partition, records);
      return sendsOf({ topic: deps.nameOf(topic), partition }, records, bytes, batchRoom(limits));
    }),
  );
  const moves = commits.map((commit) => ownCommit(commit, PartitionBuffer));
  return {
    appends: prepared,
    offsets: offsetsOf(moves, deps.nameOf),
    checkOwned: () => {
      for (const { owner } of moves) owner.checkOwned();
    },
  };
}

/** kafkajs's cost of a send grows with the square of its records: some 20 ms for so many. */
const MAX_SEND_RECORDS = 5000;

function sendsOf(
  target: Pick<Send, 'topic' | 'partition'>,
  records: readonly NewRecord[],
  bytes: readonly number[],
  room: number,
): Send[] {
  const sends: { topic: string; partition: number; records: NewRecord[]; bytes: number }[] = [];
  for (const [index, record] of records.entries()) {
    const recordBytes = bytes[index] ?? 0;
    let send = sends.at(-1);
    if (send === undefined || send.bytes + recordBytes > room || send.records.length >= MAX_SEND_RECORDS) {
      send = { ...target, records: [], bytes: 0 };
      sends.push(send);
    }
    send.records.push(record);
    send.bytes += recordBytes;
  }
  return sends;
}

function offsetsOf(
  moves: readonly OwnCommit<PartitionBuffer>[],
  nameOf: (name: string) => string,
): GroupOffsets[] {
  const groups = new Map<string, GroupOffsets>();
  for (const { owner, cursor, committed } of moves) {
    const { clusterTopic: topic, partition } = cursor;
    // The topic's end is not asked for: the linker commits what it has read.
    checkCommitted({ topic, partition, endOffset: Number.MAX_SAFE_INTEGER }, committed);
    const { offset, metadata } = committed;
    const group = nameOf(owner.group);
    const offsets = groups.get(group) ?? { consumerGroupId: group, topics: [] };
    offsets.topics.push({ topic, partitions: [{ partition, offset: String(offset), metadata }] });
    groups.set(group, offsets);
  }
  return [...groups.values()];
}
