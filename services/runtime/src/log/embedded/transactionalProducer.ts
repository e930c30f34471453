/** Transactional producer of the embedded log. Fails if a newer producer uses the same transactional id. */
import { Fenced } from '../../process/errors.ts';
import { toPartitionCommit } from '../groupPartition.ts';
import type { Appended, Transaction, TransactionalProducer } from '../log.ts';
import { commitOf, type GroupCommit } from './groupCommit.ts';
import { RecordCursor } from './recordStore.ts';
import type { TopicCatalog } from './topicCatalog.ts';

export class EmbeddedTransactionalProducer implements TransactionalProducer {
  readonly #transactionalId: string;
  readonly #catalog: TopicCatalog;
  readonly #groupCommit: GroupCommit;
  readonly #newest: Map<string, TransactionalProducer>;
  #isClosed = false;

  /** @param newest the newest producer of each transactional id */
  constructor(
    transactionalId: string,
    catalog: TopicCatalog,
    groupCommit: GroupCommit,
    newest: Map<string, TransactionalProducer>,
  ) {
    this.#transactionalId = transactionalId;
    this.#catalog = catalog;
    this.#groupCommit = groupCommit;
    this.#newest = newest.set(transactionalId, this);
  }

  async commit({ appends, commits = [] }: Transaction): Promise<readonly Appended[]> {
    if (this.#isClosed) throw new Error(`the transactional producer ${this.#transactionalId} is closed`);
    const checked = appends.map(({ topic, partition, records }) =>
      this.#catalog.checkAppend(topic, partition, records),
    );
    const partitionCommits = commits.map((commit) => commitOf(toPartitionCommit(commit, RecordCursor)));
    return this.#groupCommit.submit({
      bytes: checked.reduce((bytes, append) => bytes + append.bytes, TRANSACTION_BYTES),
      check: () => {
        this.#checkNewest();
        for (const partitionCommit of partitionCommits) partitionCommit.check();
      },
      apply: (scope) => {
        for (const partitionCommit of partitionCommits) partitionCommit.apply(scope);
        const appended = checked.map(({ partition, records }) => ({
          baseOffset: scope.append(partition, records),
        }));
        for (const partition of new Set(checked.map((append) => append.partition)))
          scope.appendMarker(partition);
        return appended;
      },
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
  }

  #checkNewest(): void {
    if (this.#newest.get(this.#transactionalId) === this) return;
    throw new Fenced(
      `a newer producer has the transactional id ${this.#transactionalId}; nothing was written`,
    );
  }
}

const TRANSACTION_BYTES = 256;
