/**
 * Reads one partition in blocks and writes each block exactly once, even after a crash. The offsets of a block are committed
 * before its rows are written. After a crash, the next owner of the partition builds the same block and writes the missing
 * rows.
 */
import type { PartitionShard } from '../clickhouse/cluster/partitions/shardAssignments.ts';
import { FilledTables } from '../clickhouse/restored/tableUuids.ts';
import { type Batch, type Committed, type LogRecord, LogTruncated, type OwnedPartition } from '../log/log.ts';
import { type CommitMetadata, metadataOf, recordIdOf, resumeAt } from '../log/projection/commitMetadata.ts';
import { checkStoredRows, findTruncation, offsetRangeOf } from '../log/truncation/findTruncation.ts';
import { Fenced, Invalid } from '../process/errors.ts';
import { pause, retry } from '../process/waiting.ts';
import type { BlockOptions } from './blockOptions.ts';
import type { Attempt, Block, BlockWriter } from './blockWriter.ts';
import { ShardInUse } from './shardInUse.ts';

/** A block ends when the values of its records reach this size. The final record can make the block larger. */
const MAX_BLOCK_BYTES = 16 * 1024 * 1024;
const MAX_BLOCK_RECORDS = 50_000;
const SETTLE_MS = 5;
const IDLE_WAIT_MS = 10_000;
const REREAD_WAIT_MS = 1_000;
/** For this time after a commit, no other process can own the partition. The value is half of a consumer's session timeout. */
const OWNERSHIP_PROOF_MS = 5_000;

/** Writes blocks until another process becomes the owner of the partition. */
export async function runBlocks<Plan>(owned: OwnedPartition, options: BlockOptions<Plan>): Promise<void> {
  const run = new BlockRun(owned, options);
  try {
    while (!owned.signal.aborted) await run.runUntilInterrupted();
  } catch (error) {
    if (error instanceof Fenced || owned.signal.aborted) {
      options.logger.info('partition_lost', { topic: options.topic, partition: owned.partition });
      return;
    }
    throw error;
  }
}

class BlockRun<Plan> {
  readonly #owned: OwnedPartition;
  readonly #options: BlockOptions<Plan>;
  #writer: BlockWriter<Plan> | undefined;
  #committed: CommitMetadata;
  #hasCommit: boolean;
  #leaderEpoch: number | undefined;
  #truncatedFrom = Infinity;
  readonly #tables: FilledTables;
  readonly #shard: ShardInUse | undefined;
  /** Below this offset, rows can already be stored. A block below this offset must insert only the missing rows. */
  #verifyBelow = 0;
  /** True if the consumer group has no commit and the tables have no rows of the partition. */
  #isNewPartition = false;
  #isStartPublished = false;
  readonly #startsWithPending: boolean;
  #previousInsertsEndAtMs: number;
  #failedInsertsEndAtMs = Number.NEGATIVE_INFINITY;
  #lastFlushMs = Number.NEGATIVE_INFINITY;
  #ownershipProvenAtMs = Number.NEGATIVE_INFINITY;

  constructor(owned: OwnedPartition, options: BlockOptions<Plan>) {
    this.#owned = owned;
    this.#options = options;
    const { topic, clock, insertsEndWithinMs, tablesId } = options;
    this.#tables = new FilledTables(tablesId);
    this.#previousInsertsEndAtMs = clock.now() + insertsEndWithinMs;
    const committed = owned.committed(topic);
    this.#hasCommit = committed !== undefined;
    this.#committed = committed === undefined ? { offset: owned.position(topic) } : metadataOf(committed);
    this.#shard =
      options.shard && new ShardInUse(options.shard, this.#hasCommit ? this.#committed : undefined);
    this.#startsWithPending = !this.#hasCommit || this.#committed.pendingTo !== undefined;
  }

  async runUntilInterrupted(): Promise<void> {
    try {
      await this.#checkTables();
      await this.#chooseShard(await this.#retry(async () => this.#shard?.latest()));
      await this.#repairTruncations();
      this.#isStartPublished = false;
      if (this.#hasCommit) await this.#publishStart(this.#committed.offset);
      await this.#finishPendingBlock();
      while (!this.#owned.signal.aborted) await this.#writeNextBlock();
    } catch (error) {
      if (error instanceof RestartRun) {
        // Discards the writer, because a writer drops the records of a block that it has already planned.
        this.#writer = undefined;
        return;
      }
      if (!(error instanceof LogTruncated)) throw error;
      this.#truncatedFrom = Math.min(this.#truncatedFrom, error.offset);
    }
  }

  /** Rewinds to the start of the log if the tables were restored and lack rows. @throws RestartRun after a rewind. */
  async #checkTables(): Promise<void> {
    if (!(await this.#retry(() => this.#tables.wereRestored(this.#committed)))) return;
    // After the loss of one shard, the other shards still have their tables, and a late insert can add rows to these tables.
    if (this.#shard !== undefined) await this.#waitForInserts();
    const { log, topic, logger } = this.#options;
    const { partition } = this.#owned;
    const { offset } = this.#committed;
    const { startOffset } = await this.#retry(() => offsetRangeOf(log, topic, partition));
    logger.warn('tables_are_others', { topic, partition, from: offset, to: startOffset });
    await this.#commit({ offset: startOffset });
    this.#hasCommit = false;
    // Inserts of the previous owner add no more rows. On a single server, a restored backup replaced their target tables.
    this.#previousInsertsEndAtMs = Number.NEGATIVE_INFINITY;
    throw new RestartRun();
  }

  /** Changes the shard after a move of the partition, after a wait until no insert into another shard can take effect. */
  async #chooseShard(next: PartitionShard | undefined): Promise<void> {
    const shard = this.#shard;
    if (shard === undefined || next === undefined) return;
    const isOther = shard.isOtherThan(next);
    if (isOther) await this.#waitForInserts();
    shard.use(next);
    if (!isOther) return;
    const { topic, logger } = this.#options;
    logger.info('partition_moved', { topic, partition: this.#owned.partition, shard: next.shard });
    throw new RestartRun();
  }

  async #repairTruncations(): Promise<void> {
    const { log, topic, storedRows, logger, onTruncation } = this.#options;
    const deps = { log, owned: this.#owned, topic, storedRows };
    const next = async () =>
      (await storedRows.unfinishedRepair()) ??
      (await findTruncation(deps, this.#committed, this.#truncatedFrom));
    for (let found = await this.#retry(next); found !== undefined; found = await this.#retry(next)) {
      // The repair would not find the rows of an insert that is still running. The previous owner can have started this insert.
      if (this.#startsWithPending) await this.#waitUntil(this.#previousInsertsEndAtMs);
      await this.#waitUntil(this.#failedInsertsEndAtMs);
      const truncation = found;
      const { offset, end } = truncation;
      const records = await this.#retry(() => storedRows.repair(truncation, () => this.#confirmOwnership()));
      this.#writer = undefined;
      await this.#commit(resumeAt(this.#committed, offset));
      await this.#retry(() => storedRows.markRepaired(truncation));
      this.#truncatedFrom = Infinity;
      const { partition } = this.#owned;
      logger.error('log_truncated', TRUNCATED_MESSAGE, { topic, partition, offset, end, records });
      onTruncation(truncation, records);
    }
    this.#truncatedFrom = Infinity;
    const { offset, pendingTo, last } = this.#committed;
    this.#owned.seek(topic, offset, pendingTo === undefined ? last?.leaderEpoch : undefined);
  }

  async #finishPendingBlock(): Promise<void> {
    const { topic } = this.#options;
    const { offset, pendingTo, last, token } = this.#committed;
    // Inserts of older versions have other deduplication tokens. ClickHouse would not drop a late insert of such a version.
    if (pendingTo !== undefined && token === undefined) await this.#waitUntil(this.#previousInsertsEndAtMs);
    await this.#chooseVerification(pendingTo ?? offset);
    if (pendingTo === undefined) return;
    const records: LogRecord[] = [];
    while (this.#owned.position(topic) < pendingTo && !this.#owned.signal.aborted) {
      const batch = await this.#read(REREAD_WAIT_MS, MAX_BLOCK_BYTES);
      records.push(...(batch?.records ?? []));
      // Checks the end of the log after a read without records, because the log can have been truncated.
      if (batch === undefined) await this.#checkEnd(pendingTo);
    }
    if (this.#owned.signal.aborted) return;
    this.#owned.seek(topic, pendingTo, last?.leaderEpoch);
    const kept = records.filter((record) => record.offset < pendingTo);
    const block = this.#block(kept, offset, pendingTo);
    // The commit contains the id of the block's last record. If the log now has another record at the same offset, the log was
    // truncated. The stored rows of the block then belong to lost records.
    if (last !== undefined && block.last !== undefined && block.last.id !== last.id)
      throw new LogTruncated({ topic, partition: block.partition, offset: last.offset, position: pendingTo });
    await this.#writeInTraces(block, true);
  }

  /**
   * Checks that the log still contains the block of the latest commit.
   * @throws RestartRun if the last record of the block seems to be missing. The process then reads the log again, because a
   * former leader can report an end offset that is too low.
   * @throws LogTruncated if the log contains the last record, but not the transaction markers after it.
   */
  async #checkEnd(position: number): Promise<void> {
    const { log, topic } = this.#options;
    const { partition } = this.#owned;
    const offset = await this.#retry(() => log.endOffset(topic, partition));
    if (offset <= (this.#committed.last?.offset ?? -1)) throw new RestartRun();
    if (offset < position) throw new LogTruncated({ topic, partition, offset, position });
  }

  /**
   * Decides which blocks are verified. The rows of a verified block are compared with the stored rows before the insert.
   * - Usually, only the next block, because a process that crashed before its commit can have left rows of the block.
   * - If the group has no commit, or if ClickHouse has a row whose offset is at or above `position`, all blocks up to the end
   *   of the log.
   * @throws RestartRun if the log ends before a stored row. The search for truncations must then run again, because the log has
   * lost records after that search.
   */
  async #chooseVerification(position: number): Promise<void> {
    const { log, topic, logger, storedRows } = this.#options;
    const { partition } = this.#owned;
    const holds = await this.#retry(() => storedRows.hasRowsFrom(position));
    if (holds) logger.warn('group_offset_behind_tables', { topic, partition, position });
    this.#isNewPartition = !this.#hasCommit && !holds;
    if (this.#hasCommit && !holds) this.#verifyBelow = position + 1;
    else this.#verifyBelow = await this.#retry(() => log.endOffset(topic, partition));
    if (!holds) return;
    const highest = await this.#retry(() => storedRows.highestRow(position - 1));
    if (highest !== undefined && highest.offset >= this.#verifyBelow) throw new RestartRun();
    if (position < this.#verifyBelow) await this.#waitUntil(this.#previousInsertsEndAtMs);
  }

  /**
   * Waits until no insert can take effect late. If the commit of a block was lost, a late insert could add rows after this
   * process has read the stored rows.
   * @throws RestartRun after a wait, because the log can be truncated during the wait.
   */
  async #waitUntil(insertsEndAtMs: number): Promise<void> {
    const { topic, clock, logger } = this.#options;
    const { partition, signal } = this.#owned;
    const waitMs = Math.ceil(insertsEndAtMs - clock.now());
    if (waitMs <= 0) return;
    logger.warn('waits_for_inserts_of_before', { topic, partition, waitMs });
    await pause(waitMs, signal);
    throw new RestartRun();
  }

  /** Waits until no insert of the previous owner and no failed insert of this process can take effect. */
  #waitForInserts(): Promise<void> {
    return this.#waitUntil(Math.max(this.#previousInsertsEndAtMs, this.#failedInsertsEndAtMs));
  }

  async #writeNextBlock(): Promise<void> {
    const { topic, clock, storedRows } = this.#options;
    const start = this.#owned.position(topic);
    // The first block of a new partition has only one record. If its commit is lost, the next owner must build the same block
    // again. Otherwise, rows would be inserted twice. Only a block of one record is certain to be the same.
    const maxRecords = this.#isNewPartition ? 1 : MAX_BLOCK_RECORDS;
    const records: LogRecord[] = [];
    let bytes = 0;
    let deadlineMs = clock.now() + IDLE_WAIT_MS;
    for (
      let waitMs = IDLE_WAIT_MS;
      waitMs > 0 && !this.#owned.signal.aborted;
      waitMs = deadlineMs - clock.now()
    ) {
      const batch = await this.#read(waitMs, MAX_BLOCK_BYTES - bytes, maxRecords);
      if (batch === undefined) continue;
      if (records.length === 0) deadlineMs = this.#deadline();
      records.push(...batch.records);
      bytes += batch.records.reduce((sum, record) => sum + (record.value?.length ?? 0), 0);
      if (bytes >= MAX_BLOCK_BYTES || records.length >= maxRecords) break;
    }
    const end = this.#owned.position(topic);
    if (end === start) {
      if (await this.#tables.mayBeRestored()) await this.#checkTables();
      // After a restore, publishes the offset although no block follows. A new partition has no commit, so `tables` is undefined.
      if (!this.#isStartPublished && this.#committed.tables !== undefined) await this.#publishStart(start);
      return;
    }
    await this.#writeInTraces(this.#block(records, start, end), start < this.#verifyBelow);
    if (this.#isNewPartition) this.#isNewPartition = false;
    else this.#lastFlushMs = clock.now();
    // If the commit of a block was lost, a late insert of this block can have stored rows above the first block of this owner.
    const isFirst = start === this.#verifyBelow - 1;
    if (isFirst && (await this.#retry(() => storedRows.hasRowsFrom(end)))) throw new RestartRun();
  }

  #deadline(): number {
    const { clock, flushIntervalMs } = this.#options;
    return Math.max(clock.now() + SETTLE_MS, this.#lastFlushMs + flushIntervalMs);
  }

  async #read(waitMs: number, maxBytes: number, maxRecords = MAX_BLOCK_RECORDS): Promise<Batch | undefined> {
    const batch = await this.#owned.read({ topic: this.#options.topic, waitMs, maxBytes, maxRecords });
    this.#leaderEpoch = batch?.leaderEpoch ?? this.#leaderEpoch;
    return batch;
  }

  #block(records: readonly LogRecord[], start: number, end: number): Block {
    const record = records.at(-1);
    const last = record && { offset: record.offset, id: recordIdOf(record), ...this.#leaderEpochField() };
    return { topic: this.#options.topic, partition: this.#owned.partition, records, start, end, last };
  }

  #leaderEpochField(): { leaderEpoch?: number } {
    return this.#leaderEpoch === undefined ? {} : { leaderEpoch: this.#leaderEpoch };
  }

  async #commit(committed: CommitMetadata): Promise<void> {
    const [tables, shard] = [this.#tables.id, this.#shard?.name];
    const metadata = {
      ...committed,
      ...(tables !== undefined && { tables }),
      ...(shard !== undefined && { shard }),
    };
    await this.#retry(async () => {
      const sentAtMs = this.#options.clock.now();
      await this.#owned.commit(this.#options.topic, encodeCommit(metadata));
      this.#ownershipProvenAtMs = sentAtMs;
    });
    this.#committed = metadata;
    this.#hasCommit = true;
  }

  /** Commits again if the latest commit is too old to prove that this process owns the partition. */
  async #confirmOwnership(): Promise<void> {
    const isProven = this.#options.clock.now() - this.#ownershipProvenAtMs <= OWNERSHIP_PROOF_MS;
    if (!isProven || this.#owned.signal.aborted) await this.#commit(this.#committed);
  }

  async #publishStart(offset: number): Promise<void> {
    const confirm = () => this.#confirmOwnership();
    await this.#retry(() => this.#options.publishStart(offset, this.#tables.id ?? '', confirm));
    this.#isStartPublished = true;
  }

  #writeInTraces(block: Block, verify: boolean): Promise<void> {
    const write = () => this.#write(block, verify);
    return this.#options.inTraces?.(block, write) ?? write();
  }

  /**
   * Writes a block. Splits a rejected block until each rejected record is alone, and sends these records to the dead letters.
   */
  async #write(block: Block, verify: boolean): Promise<void> {
    const { clock, onWritten } = this.#options;
    const startedAtMs = clock.now();
    const { start, end, last } = block;
    if (last !== undefined) {
      if (verify) await this.#retry(() => checkStoredRows(this.#options.storedRows, block));
      await this.#commit({ offset: start, pendingTo: end, last, token: 'start' });
      if (!this.#isStartPublished) await this.#publishStart(start);
      this.#writer ??= await this.#retry(() => this.#options.openWriter(block.start, this.#shard?.name));
      const writer = this.#writer;
      const plan = await this.#retry(() => writer.plan(block));
      try {
        await this.#insert(verify, (attempt) => writer.apply(plan, attempt));
        onWritten(block, startedAtMs);
      } catch (error) {
        if (!(error instanceof Invalid)) throw error;
        await this.#isolateRejected(writer, block, error);
      }
    }
    // The commit contains the newest leader epoch, which is needed to detect truncations. This epoch can be higher than the
    // epoch of the last record, because a transaction marker can follow that record.
    const proof = last ?? (this.#committed.last && { ...this.#committed.last, ...this.#leaderEpochField() });
    const upToEpoch = this.#leaderEpoch ?? this.#committed.upToEpoch;
    const known = upToEpoch === undefined ? {} : { upToEpoch };
    await this.#commit({ offset: end, ...(proof === undefined ? known : { last: proof }) });
    this.#options.onProjected(end, this.#tables.id ?? '');
  }

  async #isolateRejected(writer: BlockWriter<Plan>, block: Block, cause: Invalid): Promise<void> {
    // Discards the writer, because its state includes the rows that ClickHouse rejected.
    this.#writer = undefined;
    if (block.records.length === 1) {
      await this.#insert(true, () => writer.deadLetter(block, cause));
      return;
    }
    const half = block.records.length >> 1;
    const middle = block.records[half]?.offset ?? block.end;
    await this.#write(this.#block(block.records.slice(0, half), block.start, middle), true);
    await this.#write(this.#block(block.records.slice(half), middle, block.end), true);
  }

  async #insert(verify: boolean, insert: (attempt: Attempt) => Promise<void>): Promise<void> {
    let mayBeStored = verify;
    await this.#retry(async () => {
      // Checks the tables before every attempt, because a backup can be restored between two attempts.
      await this.#checkTables();
      await this.#chooseShard(this.#shard?.recent());
      const attempt = { verify: mayBeStored, confirm: () => this.#confirmOwnership() };
      mayBeStored = true;
      await insert(attempt).catch((error: unknown) => {
        this.#failedInsertsEndAtMs = this.#options.clock.now() + this.#options.insertsEndWithinMs;
        throw error;
      });
    });
  }

  async #retry<T>(work: () => Promise<T>): Promise<T> {
    const { topic, logger } = this.#options;
    const { partition, signal } = this.#owned;
    return await retry(work, {
      signal,
      onDelay: (cause, backoffMs) => logger.error('block_delayed', cause, { topic, partition, backoffMs }),
    });
  }
}

/** Error that restarts the writing of blocks at the committed offset, with a new writer. */
class RestartRun extends Error {}

const TRUNCATED_MESSAGE = 'the log lost records whose rows are stored; see the table truncations';

function encodeCommit({ offset, ...metadata }: CommitMetadata): Committed {
  return { offset, metadata: Object.keys(metadata).length === 0 ? '' : JSON.stringify(metadata) };
}
