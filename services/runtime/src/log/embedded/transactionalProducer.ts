/** Appends to several partitions and moves offsets in one transaction, while no newer producer has the same id. */
import { Fenced } from '../../process/errors.ts';
import type { Appended, Transaction, TransactionalProducer } from '../log.ts';
import { type CheckedAppend, checkedAppend } from './checkedAppend.ts';
import type { GroupCommit, WriteScope } from './groupCommit.ts';
import { EmbeddedOwnedPartition } from './ownedPartition.ts';
import type { TopicCatalog } from './topicCatalog.ts';

/**
 * The newest producer of each transactional id. In memory is enough: an older process cannot write any more, since the
 * file's lock went with it.
 */
export class ProducerEpochs {
  readonly #epochs = new Map<string, number>();

  next(transactionalId: string): number {
    const epoch = (this.#epochs.get(transactionalId) ?? 0) + 1;
    this.#epochs.set(transactionalId, epoch);
    return epoch;
  }

  isNewest(transactionalId: string, epoch: number): boolean {
    return this.#epochs.get(transactionalId) === epoch;
  }
}

export interface TransactionalProducerDeps {
  readonly catalog: TopicCatalog;
  readonly groupCommit: GroupCommit;
  readonly epochs: ProducerEpochs;
}

export class EmbeddedTransactionalProducer implements TransactionalProducer {
  readonly #transactionalId: string;
  readonly #epoch: number;
  readonly #deps: TransactionalProducerDeps;
  #isClosed = false;

  constructor(transactionalId: string, deps: TransactionalProducerDeps) {
    this.#transactionalId = transactionalId;
    this.#epoch = deps.epochs.next(transactionalId);
    this.#deps = deps;
  }

  async commit({ appends, commits = [] }: Transaction): Promise<readonly Appended[]> {
    if (this.#isClosed) throw new Error(`the transactional producer ${this.#transactionalId} is closed`);
    const prepared = appends.map(({ topic, partition, records }) =>
      checkedAppend(this.#deps.catalog, topic, partition, records),
    );
    const moves = commits.map(({ owned, topic, committed }) => {
      if (!(owned instanceof EmbeddedOwnedPartition)) throw new Error('the partition is of another log');
      return { owned, topic, committed, ...owned.commitTarget(topic) };
    });
    return this.#deps.groupCommit.submit({
      bytes: prepared.reduce((bytes, append) => bytes + append.bytes, TRANSACTION_BYTES),
      check: () => {
        this.#checkEpoch();
        for (const { owned, topic, committed } of moves) owned.checkCommit(topic, committed);
      },
      apply: (scope) => {
        for (const { group, state, committed } of moves) scope.commit(group, state, committed);
        return appendAndMark(scope, prepared);
      },
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
  }

  #checkEpoch(): void {
    if (this.#deps.epochs.isNewest(this.#transactionalId, this.#epoch)) return;
    throw new Fenced(
      `a newer producer has the transactional id ${this.#transactionalId}; nothing was written`,
    );
  }
}

/** A transaction's share of the queue beside its records, about. */
const TRANSACTION_BYTES = 256;

function appendAndMark(scope: WriteScope, appends: readonly CheckedAppend[]): Appended[] {
  const appended = appends.map(({ partition, records }) => ({
    baseOffset: scope.append(partition, records),
  }));
  for (const partition of new Set(appends.map((append) => append.partition))) scope.mark(partition);
  return appended;
}
