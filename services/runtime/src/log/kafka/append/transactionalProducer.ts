/** Transactional producer on Kafka. Fails if a newer producer uses the same transactional id. */
import { Fenced, messageOf, Unavailable } from '../../../process/errors.ts';
import { checkCommit, type PartitionCommit, toPartitionCommit } from '../../groupPartition.ts';
import type { Appended, NewRecord, Transaction, TransactionalProducer } from '../../log.ts';
import { toLogError } from '../client/errors.ts';
import { withinTimeout } from '../client/replaceableClient.ts';
import { PartitionBuffer } from '../read/partitionBuffer.ts';
import type { KafkaDeps } from '../topics/catalog.ts';
import { checkSizes, maxRecordsBytes } from './batchSize.ts';
import { isBrokerResponse } from './brokerRetries.ts';
import type { PartitionBatch } from './partitionProducer.ts';
import { type GroupOffsets, type TransactionSteps, transactionSteps } from './transactionSteps.ts';

type TransactionDeps = Pick<KafkaDeps, 'kafka' | 'catalog' | 'nameOf'>;

/** Fences older producers and waits until their transactions end. @throws Unavailable if the brokers do not respond in time. */
export async function openTransactionalProducer(
  deps: TransactionDeps,
  transactionalId: string,
): Promise<KafkaTransactionalProducer> {
  const id = deps.nameOf(transactionalId);
  const steps = transactionSteps(deps.kafka, { id, timeoutMs: TRANSACTION_TIMEOUT_MS });
  try {
    await withinTimeout(steps.initialize(performance.now() + INITIALIZE_LIMIT_MS), INITIALIZE_LIMIT_MS);
    return new KafkaTransactionalProducer(deps, id, steps);
  } catch (error) {
    void steps.close();
    throw toLogError(error, `the transactional producer ${id} cannot be initialised`);
  }
}

/** Maximum time to initialize the producer, including the wait for a transaction of an older producer. */
const INITIALIZE_LIMIT_MS = 12_000;

/** Time after which the brokers abort an open transaction. Readers with `read_committed` wait until the transaction ends. */
const TRANSACTION_TIMEOUT_MS = 15_000;

/** Maximum time of a commit, below `TRANSACTION_TIMEOUT_MS`, so that the brokers do not fence a slow producer. */
const COMMIT_LIMIT_MS = 12_000;

const ABORT_LIMIT_MS = 2000;

export class KafkaTransactionalProducer implements TransactionalProducer {
  readonly closed: Promise<void>;
  readonly #deps: Pick<TransactionDeps, 'catalog' | 'nameOf'>;
  readonly #id: string;
  readonly #steps: TransactionSteps;
  readonly #resolveClosed: () => void;
  /** Resolves when the previous commit ends, even if the previous commit failed. */
  #last: Promise<unknown> = Promise.resolve();
  #failure: Error | undefined;
  #isClosed = false;

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
    if (this.#failure !== undefined) throw this.#unusableError(this.#failure);
    const prepared = await prepareTransaction(this.#deps, transaction);
    prepared.checkOwned();
    const running = new RunningTransaction(this.#steps, prepared);
    try {
      return await withinTimeout(running.run(), COMMIT_LIMIT_MS);
    } catch (error) {
      const failure = toLogError(error, `the transaction of ${this.#id} has an unknown outcome`);
      this.#failure = failure;
      await running.abandon();
      void this.#steps.close();
      throw failure;
    }
  }

  #unusableError(cause: Error): Error {
    if (cause instanceof Fenced) return cause;
    return new Unavailable(
      `an earlier transaction of ${this.#id} failed: a new producer must be opened; nothing was written`,
      { cause },
    );
  }
}

/** Runs one transaction. After `abandon`, no further step starts. */
class RunningTransaction {
  readonly #steps: TransactionSteps;
  readonly #prepared: PreparedTransaction;
  readonly #deadlineMs = performance.now() + COMMIT_LIMIT_MS;
  /** True if the brokers may have an open transaction of this producer. */
  #hasStarted = false;
  /** True if the outcome of the transaction's latest step is unknown. */
  #isStepPending = false;
  #isAbandoned = false;

  constructor(steps: TransactionSteps, prepared: PreparedTransaction) {
    this.#steps = steps;
    this.#prepared = prepared;
  }

  async run(): Promise<readonly Appended[]> {
    const { appends, offsets, checkOwned } = this.#prepared;
    const batches = appends.flat();
    if (batches.length > 0) await this.#step((steps, deadlineMs) => steps.begin(batches, deadlineMs));
    const appended: Appended[] = [];
    for (const own of appends) appended.push(await this.#append(own));
    for (const groupOffsets of offsets) {
      await this.#step((steps, deadlineMs) => steps.beginOffsets(groupOffsets, deadlineMs));
      await this.#step((steps, deadlineMs) => steps.commitOffsets(groupOffsets, deadlineMs));
    }
    checkOwned();
    if (this.#hasStarted) await this.#step((steps, deadlineMs) => steps.end('commit', deadlineMs));
    return appended;
  }

  /**
   * Aborts the transaction. If the outcome of a step is unknown, the brokers abort the transaction after its timeout. An
   * immediate abort would be unsafe: a late request of the step could start another transaction after the abort.
   */
  async abandon(): Promise<void> {
    this.#isAbandoned = true;
    if (this.#isStepPending || !this.#hasStarted) return;
    const aborted = this.#steps.end('abort', performance.now() + ABORT_LIMIT_MS);
    await withinTimeout(aborted, ABORT_LIMIT_MS).catch(() => undefined);
  }

  async #append(batches: readonly PartitionBatch[]): Promise<Appended> {
    let first: number | undefined;
    for (const batch of batches) {
      const baseOffset = await this.#step(async (steps, deadlineMs) => {
        try {
          return await steps.send(batch, deadlineMs);
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
    if (this.#isAbandoned) throw new Error('the transaction was given up');
    this.#hasStarted = true;
    this.#isStepPending = true;
    try {
      const result = await step(this.#steps, this.#deadlineMs);
      this.#isStepPending = false;
      return result;
    } catch (error) {
      this.#isStepPending = !isBrokerResponse(error);
      throw error;
    }
  }
}

/** Thrown if the final attempt to send a batch fails. An earlier attempt can still be in progress. */
class SendFailed extends Error {}

interface PreparedTransaction {
  /** Batches of each append. An append has several batches only if it exceeds the maximum batch size. */
  readonly appends: readonly (readonly PartitionBatch[])[];
  readonly offsets: readonly GroupOffsets[];
  checkOwned(): void;
}

/** Checks a transaction and splits its appends into batches. @throws RecordTooLarge if a record exceeds the limit. */
async function prepareTransaction(
  deps: Pick<TransactionDeps, 'catalog' | 'nameOf'>,
  { appends, commits = [] }: Transaction,
): Promise<PreparedTransaction> {
  const prepared = await Promise.all(
    appends.map(async ({ topic, partition, records }) => {
      const limits = await deps.catalog.limits(topic);
      const bytes = checkSizes(limits, partition, records);
      return splitIntoBatches(
        { topic: deps.nameOf(topic), partition },
        records,
        bytes,
        maxRecordsBytes(limits),
      );
    }),
  );
  const partitionCommits = commits.map((commit) => toPartitionCommit(commit, PartitionBuffer));
  return {
    appends: prepared,
    offsets: groupOffsetsOf(partitionCommits, deps.nameOf),
    checkOwned: () => {
      for (const { owner } of partitionCommits) owner.checkOwned();
    },
  };
}

function splitIntoBatches(
  target: Pick<PartitionBatch, 'topic' | 'partition'>,
  records: readonly NewRecord[],
  bytes: readonly number[],
  maxBytes: number,
): PartitionBatch[] {
  const batches: { topic: string; partition: number; records: NewRecord[] }[] = [];
  let freeBytes = 0;
  for (const [index, record] of records.entries()) {
    const recordBytes = bytes[index] ?? 0;
    let batch = batches.at(-1);
    if (batch === undefined || recordBytes > freeBytes) {
      batch = { ...target, records: [] };
      batches.push(batch);
      freeBytes = maxBytes;
    }
    batch.records.push(record);
    freeBytes -= recordBytes;
  }
  return batches;
}

function groupOffsetsOf(
  partitionCommits: readonly PartitionCommit<PartitionBuffer>[],
  nameOf: (name: string) => string,
): GroupOffsets[] {
  const groups = new Map<string, GroupOffsets>();
  for (const { owner, cursor, committed } of partitionCommits) {
    const { clusterTopic: topic, partition } = cursor;
    // Accepts any offset without a check, because the linker commits only offsets that it has read.
    checkCommit({ topic, partition, endOffset: Number.MAX_SAFE_INTEGER }, committed);
    const { offset, metadata } = committed;
    const group = nameOf(owner.group);
    const offsets = groups.get(group) ?? { group, topics: [] };
    offsets.topics.push({ topic, partitions: [{ partition, offset: String(offset), metadata }] });
    groups.set(group, offsets);
  }
  return [...groups.values()];
}
