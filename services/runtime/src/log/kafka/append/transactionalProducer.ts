/** Appends to several partitions and moves offsets in one transaction, while no newer producer has the same id. */
import { Fenced, messageOf, Unavailable } from '../../../process/errors.ts';
import { checkCommitted, type OwnCommit, ownCommit } from '../../groupPartition.ts';
import type { Appended, NewRecord, Transaction, TransactionalProducer } from '../../log.ts';
import { asFailure } from '../client/failures.ts';
import { answered } from '../client/renewable.ts';
import { PartitionBuffer } from '../read/partitionBuffer.ts';
import type { KafkaDeps } from '../topics/catalog.ts';
import { batchRoom, checkedBytes } from './batchBytes.ts';
import type { Send } from './partitionProducer.ts';
import { type GroupOffsets, type TransactionSteps, transactionSteps } from './transactionSteps.ts';
import { isAnswer } from './tries.ts';

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
  const steps = transactionSteps(deps.kafka, { id, timeoutMs: TRANSACTION_TIMEOUT_MS });
  try {
    await answered(steps.initialise(performance.now() + INITIALISE_LIMIT_MS), INITIALISE_LIMIT_MS);
    return new KafkaTransactionalProducer(deps, id, steps);
  } catch (error) {
    void steps.close();
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
  readonly #deps: Pick<TransactionDeps, 'catalog' | 'nameOf'>;
  readonly #id: string;
  readonly #steps: TransactionSteps;
  readonly #resolveClosed: () => void;
  /** Settles when the commit before has; never rejects. */
  #last: Promise<unknown> = Promise.resolve();
  #broken: Error | undefined;
  #isClosed = false;

  /** @param steps initialised. */
  constructor(deps: Pick<TransactionDeps, 'catalog' | 'nameOf'>, id: string, steps: TransactionSteps) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.closed = promise;
    this.#resolveClosed = resolve;
    this.#deps = deps;
    this.#id = id;
    this.#steps = steps;
  }

  commit(transaction: Transaction): Promise<readonly Appended[]> {
    const committed = this.#last.then(() => this.#commit(transaction));
    this.#last = committed.catch(() => undefined);
    return committed;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#last;
    await this.#steps.close();
    this.#resolveClosed();
  }

  async #commit(transaction: Transaction): Promise<readonly Appended[]> {
    if (this.#isClosed) throw new Error(`the transactional producer ${this.#id} is closed`);
    if (this.#broken !== undefined) throw this.#unusable(this.#broken);
    const prepared = await preparedTransaction(this.#deps, transaction);
    prepared.checkOwned();
    const running = new RunningTransaction(this.#steps, prepared);
    try {
      return await answered(running.run(), COMMIT_LIMIT_MS);
    } catch (error) {
      const failure = asFailure(error, `the transaction of ${this.#id} did not commit for certain`);
      this.#broken = failure;
      await running.giveUp();
      void this.#steps.close();
      throw failure;
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

/** One transaction from its first step to its end; given up, it takes no other step. */
class RunningTransaction {
  readonly #steps: TransactionSteps;
  readonly #prepared: PreparedTransaction;
  readonly #deadlineMs = performance.now() + COMMIT_LIMIT_MS;
  /** The brokers know of it, or may. */
  #isBegun = false;
  /** A step is under way, or was lost there. */
  #isOut = false;
  #isGivenUp = false;

  constructor(steps: TransactionSteps, prepared: PreparedTransaction) {
    this.#steps = steps;
    this.#prepared = prepared;
  }

  async run(): Promise<readonly Appended[]> {
    const { appends, offsets, checkOwned } = this.#prepared;
    const sends = appends.flat();
    if (sends.length > 0) await this.#step((steps, deadlineMs) => steps.begin(sends, deadlineMs));
    const appended: Appended[] = [];
    for (const own of appends) appended.push(await this.#append(own));
    for (const moved of offsets) {
      await this.#step((steps, deadlineMs) => steps.beginOffsets(moved, deadlineMs));
      await this.#step((steps, deadlineMs) => steps.commitOffsets(moved, deadlineMs));
    }
    checkOwned();
    if (this.#isBegun) await this.#step((steps, deadlineMs) => steps.end('commit', deadlineMs));
    return appended;
  }

  /**
   * Aborts where that is still possible. The brokers do it after their timeout, or for the next producer of the id. A step
   * under way could arrive after our abort and begin a transaction that nobody ends; the next producer fences it.
   */
  async giveUp(): Promise<void> {
    this.#isGivenUp = true;
    if (this.#isOut || !this.#isBegun) return;
    const aborted = this.#steps.end('abort', performance.now() + ABORT_LIMIT_MS);
    await answered(aborted, ABORT_LIMIT_MS).catch(() => undefined);
  }

  async #append(sends: readonly Send[]): Promise<Appended> {
    let first: number | undefined;
    for (const send of sends) {
      const baseOffset = await this.#step(async (steps, deadlineMs) => {
        try {
          return await steps.send(send, deadlineMs);
        } catch (cause) {
          throw new SendFailed(messageOf(cause), { cause });
        }
      });
      first ??= baseOffset;
    }
    if (first === undefined) throw new Error('an append without records');
    return { baseOffset: first };
  }

  async #step<T>(step: (steps: TransactionSteps, deadlineMs: number) => Promise<T>): Promise<T> {
    if (this.#isGivenUp) throw new Error('the transaction was given up');
    this.#isBegun = true;
    this.#isOut = true;
    try {
      const result = await step(this.#steps, this.#deadlineMs);
      this.#isOut = false;
      return result;
    } catch (error) {
      this.#isOut = !isAnswer(error);
      throw error;
    }
  }
}

/** Of several tries the last was answered, and an earlier one may be under way. */
class SendFailed extends Error {}

/** A transaction that was checked before anything of it is sent, in the shape in which it is sent. */
interface PreparedTransaction {
  /** The sends of each append, in order. An append has several only if it exceeds a batch. */
  readonly appends: readonly (readonly Send[])[];
  readonly offsets: readonly GroupOffsets[];
  /** @throws Fenced when a partition is another's by now. */
  checkOwned(): void;
}

/** @throws RecordTooLarge when a record exceeds its topic's limit; anything else it throws is a bug of the caller. */
async function preparedTransaction(
  deps: Pick<TransactionDeps, 'catalog' | 'nameOf'>,
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

function sendsOf(
  target: Pick<Send, 'topic' | 'partition'>,
  records: readonly NewRecord[],
  bytes: readonly number[],
  room: number,
): Send[] {
  const sends: { topic: string; partition: number; records: NewRecord[] }[] = [];
  let free = 0;
  for (const [index, record] of records.entries()) {
    const recordBytes = bytes[index] ?? 0;
    let send = sends.at(-1);
    if (send === undefined || recordBytes > free) {
      send = { ...target, records: [] };
      sends.push(send);
      free = room;
    }
    send.records.push(record);
    free -= recordBytes;
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
    const offsets = groups.get(group) ?? { group, topics: [] };
    offsets.topics.push({ topic, partitions: [{ partition, offset: String(offset), metadata }] });
    groups.set(group, offsets);
  }
  return [...groups.values()];
}
