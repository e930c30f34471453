/**
 * Effects first, offsets last: reads one partition as blocks and has each written exactly once. A block's boundaries
 * are committed ("pending to N") before anything of it is written, so that whoever comes after a crash forms the very
 * same block, asks what of it is in place, and writes only the rest.
 */
import { createHash } from 'node:crypto';
import { APPEND_ID_HEADER } from '@questlog/schemas/topics/topics';
import {
  type Batch,
  type Committed,
  type Log,
  type LogRecord,
  LogTruncated,
  type OwnedPartition,
} from '../log/log.ts';
import type { Clock } from '../process/clock.ts';
import { Fenced, Invalid, Unavailable } from '../process/errors.ts';
import type { Logger } from '../process/logger.ts';
import { pause, retryUntilAvailable } from '../process/waiting.ts';
import type { Block, BlockWriter } from './blockWriter.ts';
import { metadataOf, resumeAt } from './commitMetadata.ts';
import {
  type CommitMetadata,
  findTruncation,
  offsetRangeOf,
  type StoredRows,
  type Truncation,
} from './findTruncation.ts';

export interface BlockOptions<Plan> {
  readonly log: Pick<Log, 'offsetRanges' | 'endOffset'>;
  readonly topic: string;
  /** Names the tables, as of after the call: those of a restored backup have another name. */
  tablesId(): Promise<string>;
  /** The same, perhaps as of a while ago: a partition without records asks after each of its waits. */
  cachedTablesId(): Promise<string>;
  /** What they hold of this partition. */
  readonly storedRows: StoredRows;
  /** The writer with its state as of `start`: built from what is stored, never from memory. */
  openWriter(start: number): Promise<BlockWriter<Plan>>;
  /** Blocks of one partition are at least so far apart while records keep coming; the first one goes at once. */
  readonly flushIntervalMs: number;
  /** As of the store. */
  readonly insertsEndWithinMs: number;
  /** A steady one: blocks must not wait for one that was set back. */
  readonly clock: Clock;
  readonly logger: Logger;
  onWritten(block: Block, startedAtMs: number): void;
  /** Publishes an offset below which every row is in these tables, even if it is lower. Awaits `confirm` before the insert. */
  publishStart(nextOffset: number, tablesId: string, confirm: () => Promise<void>): Promise<void>;
  /** Receives the next such offset, after its commit. */
  onProjected(nextOffset: number, tablesId: string): void;
  /** The log has lost so many records that had been written; what was theirs is out of the way of what comes there. */
  onTruncation(cut: Truncation, records: number): void;
}

/** Bytes of keys and values in the log. With one record of the largest size on top a block stays below 32 MiB. */
const MAX_BLOCK_BYTES = 16 * 1024 * 1024;
const MAX_BLOCK_RECORDS = 50_000;
/** Records that arrive together are written together. */
const SETTLE_MS = 5;
/** Whatever comes ends it: a partition without records wakes nobody more often. */
const IDLE_WAIT_MS = 10_000;
/** For records that were read before. */
const REREAD_WAIT_MS = 1_000;
/** So long a commit proves that the partition is ours: half a consumer's session. */
const OWNERSHIP_PROOF_MS = 5_000;

/** Runs until the partition is lost. @throws what is neither `Unavailable` nor `Invalid` nor `Fenced`. */
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
  /** As the group has it. */
  #committed: CommitMetadata;
  #hasCommit: boolean;
  /** Of the last batch that was read. */
  #leaderEpoch: number | undefined;
  /** The log says that from here on it is not what was read. */
  #truncatedFrom = Infinity;
  /** Where the rows of its commits are. */
  #tablesId: string | undefined;
  /** Something of a block that begins below may be in place already. */
  #verifyBelow = 0;
  /** Neither the group nor the tables know anything of the partition. */
  #isNewPartition = false;
  #isStartPublished = false;
  /** No insert of whoever had the partition before runs from then on. */
  #previousInsertsEndAtMs: number;
  #lastFlushMs = Number.NEGATIVE_INFINITY;
  #ownershipProvenAtMs = Number.NEGATIVE_INFINITY;

  constructor(owned: OwnedPartition, options: BlockOptions<Plan>) {
    this.#owned = owned;
    this.#options = options;
    const { topic, clock, insertsEndWithinMs } = options;
    this.#previousInsertsEndAtMs = clock.now() + insertsEndWithinMs;
    const committed = owned.committed(topic);
    this.#hasCommit = committed !== undefined;
    this.#committed = committed === undefined ? { offset: owned.position(topic) } : metadataOf(committed);
  }

  /** Returns when the log was cut, the tables are others, or the partition is lost. */
  async runUntilInterrupted(): Promise<void> {
    try {
      await this.#checkTables();
      await this.#repairTruncations();
      this.#isStartPublished = false;
      if (this.#hasCommit) await this.#publishStart(this.#committed.offset);
      await this.#finishPendingBlock();
      while (!this.#owned.signal.aborted) await this.#writeNextBlock();
    } catch (error) {
      if (error instanceof RestartRun) return;
      if (!(error instanceof LogTruncated)) throw error;
      this.#truncatedFrom = Math.min(this.#truncatedFrom, error.offset);
    }
  }

  /**
   * The rows that the commits stand behind are not in tables that were restored, or made anew: what the log has is then read
   * again from its beginning, as by a group without offsets. @throws Anew
   */
  async #checkTables(): Promise<void> {
    const { log, topic, tablesId, logger } = this.#options;
    const { partition } = this.#owned;
    const { tables: committedTables, offset } = this.#committed;
    this.#tablesId = await this.#retry(tablesId);
    if (committedTables === undefined || committedTables === this.#tablesId) return;
    const { startOffset } = await this.#retry(() => offsetRangeOf(log, topic, partition));
    logger.warn('tables_are_others', { topic, partition, from: offset, to: startOffset });
    this.#writer = undefined;
    await this.#commit({ offset: startOffset });
    this.#hasCommit = false;
    // Those inserts were into the tables of before.
    this.#previousInsertsEndAtMs = Number.NEGATIVE_INFINITY;
    throw new RestartRun();
  }

  /** Repairs what a cut of the log has left behind, and goes to where the group is then. */
  async #repairTruncations(): Promise<void> {
    const { log, topic, storedRows, logger, onTruncation } = this.#options;
    const deps = { log, owned: this.#owned, topic, storedRows, recordIdOf };
    const next = async () =>
      (await storedRows.unfinishedRepair()) ??
      (await findTruncation(deps, this.#committed, this.#truncatedFrom));
    for (let found = await this.#retry(next); found !== undefined; found = await this.#retry(next)) {
      const truncation = found;
      const { offset, end } = truncation;
      const records = await this.#retry(() => storedRows.repair(truncation, () => this.#confirmOwnership()));
      this.#writer = undefined;
      await this.#commit(resumeAt(this.#committed, offset));
      await this.#retry(() => storedRows.markRepaired(truncation));
      this.#truncatedFrom = Infinity;
      logger.error('log_truncated', TRUNCATED_MESSAGE, {
        topic,
        partition: this.#owned.partition,
        offset,
        end,
        records,
      });
      onTruncation(truncation, records);
    }
    this.#truncatedFrom = Infinity;
    const { offset, pendingTo, last } = this.#committed;
    this.#owned.seek(topic, offset, pendingTo === undefined ? last?.leaderEpoch : undefined);
  }

  /** Finishes the block that was announced, by a predecessor or before the log told of a cut. */
  async #finishPendingBlock(): Promise<void> {
    const { topic } = this.#options;
    const { offset, pendingTo, last } = this.#committed;
    await this.#chooseVerification(pendingTo ?? offset);
    if (pendingTo === undefined) return;
    const records: LogRecord[] = [];
    while (this.#owned.position(topic) < pendingTo && !this.#owned.signal.aborted) {
      const batch = await this.#read(REREAD_WAIT_MS, MAX_BLOCK_BYTES);
      records.push(...(batch?.records ?? []));
      // The log may have been cut since it was compared: what is gone never comes.
      if (batch === undefined) await this.#checkEnd(pendingTo);
    }
    if (this.#owned.signal.aborted) return;
    this.#owned.seek(topic, pendingTo, last?.leaderEpoch);
    const block = this.#block(
      records.filter((record) => record.offset < pendingTo),
      offset,
      pendingTo,
    );
    // Cut since then, and grown again: the rows that are there are not of these records.
    if (last !== undefined && block.last !== undefined && block.last.id !== last.id)
      throw new LogTruncated({ topic, partition: block.partition, offset: last.offset, position: pendingTo });
    await this.#write(block, true);
  }

  /**
   * A broker that is no longer the leader may know less: where a record was named it is looked for before anything is done.
   * @throws Anew, or LogTruncated, where the log ends before the end of the announced block.
   */
  async #checkEnd(position: number): Promise<void> {
    const { log, topic } = this.#options;
    const { partition } = this.#owned;
    const offset = await this.#retry(() => log.endOffset(topic, partition));
    if (offset <= (this.#committed.last?.offset ?? -1)) throw new RestartRun();
    if (offset < position) throw new LogTruncated({ topic, partition, offset, position });
  }

  /**
   * Group offsets may be lost, reset, or older than what was done since. Where the group has none, or the tables hold rows
   * behind its position, whatever the log has by now may have been written, or acknowledged under a token and dropped.
   * Otherwise that is possible of the block at the position only: its announcement may be what was lost.
   */
  async #chooseVerification(position: number): Promise<void> {
    const { log, topic, logger, storedRows } = this.#options;
    const { partition } = this.#owned;
    const holds = await this.#retry(() => storedRows.hasRowsFrom(position));
    if (holds) logger.warn('group_offset_behind_tables', { topic, partition, position });
    this.#isNewPartition = !this.#hasCommit && !holds;
    if (this.#hasCommit && !holds) this.#verifyBelow = position + 1;
    else this.#verifyBelow = await this.#retry(() => log.endOffset(topic, partition));
    if (holds && position < this.#verifyBelow) await this.#waitForPreviousInserts();
  }

  /**
   * An insert that its sender has given up may run on. Where the block that it is of was announced its token guards against
   * it. Where the announcement was lost nothing would: its rows would come once they were looked for.
   * @throws Anew after a wait: the log may have been cut meanwhile.
   */
  async #waitForPreviousInserts(): Promise<void> {
    const { topic, clock, logger } = this.#options;
    const { partition, signal } = this.#owned;
    const waitMs = Math.ceil(this.#previousInsertsEndAtMs - clock.now());
    if (waitMs <= 0) return;
    logger.warn('waits_for_inserts_of_before', { topic, partition, waitMs });
    await pause(waitMs, signal);
    throw new RestartRun();
  }

  async #writeNextBlock(): Promise<void> {
    const { topic, clock } = this.#options;
    const start = this.#owned.position(topic);
    // Whoever comes next, and knows as little, makes the very same first block: its token guards against this one's insert.
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
    if (end === start) return await this.#checkTablesWhileIdle();
    await this.#write(this.#block(records, start, end), start < this.#verifyBelow);
    if (this.#isNewPartition) this.#isNewPartition = false;
    else this.#lastFlushMs = clock.now();
  }

  /** A partition without records would not notice other tables, and whoever needs their rows would wait for ever. */
  async #checkTablesWhileIdle(): Promise<void> {
    const now = await this.#options.cachedTablesId().catch((cause: unknown) => {
      if (cause instanceof Unavailable) return this.#tablesId;
      throw cause;
    });
    if (now !== this.#tablesId) await this.#checkTables();
  }

  #deadline(): number {
    const { clock, flushIntervalMs } = this.#options;
    return Math.max(clock.now() + SETTLE_MS, this.#lastFlushMs + flushIntervalMs);
  }

  async #read(waitMs: number, maxBytes: number, maxRecords = MAX_BLOCK_RECORDS): Promise<Batch | undefined> {
    const { topic } = this.#options;
    const batch = await this.#owned.read({ topic, waitMs, maxBytes, maxRecords });
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

  /** @throws Fenced when the partition is another's: then nothing of the block may be written. */
  async #commit(committed: CommitMetadata): Promise<void> {
    const metadata = this.#tablesId === undefined ? committed : { ...committed, tables: this.#tablesId };
    await this.#retry(async () => {
      const sentAtMs = this.#options.clock.now();
      await this.#owned.commit(this.#options.topic, encodeCommit(metadata));
      this.#ownershipProvenAtMs = sentAtMs;
    });
    this.#committed = metadata;
    this.#hasCommit = true;
  }

  /** A process that was stopped for longer, or is told that it may have lost the partition, asks whether it has. */
  async #confirmOwnership(): Promise<void> {
    const isProven = this.#options.clock.now() - this.#ownershipProvenAtMs <= OWNERSHIP_PROOF_MS;
    if (!isProven || this.#owned.signal.aborted) await this.#commit(this.#committed);
  }

  async #publishStart(offset: number): Promise<void> {
    const confirm = () => this.#confirmOwnership();
    await this.#retry(() => this.#options.publishStart(offset, this.#tablesId ?? '', confirm));
    this.#isStartPublished = true;
  }

  /** A block refused for its data is halved until the refused records stand alone; those are dead-lettered. */
  async #write(block: Block, verify: boolean): Promise<void> {
    const { clock, onWritten } = this.#options;
    const startedAtMs = clock.now();
    const { start, end, last } = block;
    if (last !== undefined) {
      await this.#commit({ offset: start, pendingTo: end, last });
      if (!this.#isStartPublished) await this.#publishStart(start);
      this.#writer ??= await this.#retry(() => this.#options.openWriter(block.start));
      const writer = this.#writer;
      const plan = await this.#retry(() => writer.plan(block));
      try {
        await this.#apply(writer, plan, verify);
        onWritten(block, startedAtMs);
      } catch (error) {
        if (!(error instanceof Invalid)) throw error;
        await this.#isolateRejected(writer, block, error);
      }
    }
    // A marker may be of a newer leader epoch than the last record: with the older one the log would seem to be cut there.
    const proof = last ?? (this.#committed.last && { ...this.#committed.last, ...this.#leaderEpochField() });
    const upToEpoch = this.#leaderEpoch ?? this.#committed.upToEpoch;
    const known = upToEpoch === undefined ? {} : { upToEpoch };
    await this.#commit({ offset: end, ...(proof === undefined ? known : { last: proof }) });
    this.#options.onProjected(end, this.#tablesId ?? '');
  }

  async #isolateRejected(writer: BlockWriter<Plan>, block: Block, cause: Invalid): Promise<void> {
    // The counts of the refused plan must go: the halves start from what is stored.
    this.#writer = undefined;
    if (block.records.length === 1) {
      await this.#retry(() => writer.deadLetter(block, cause));
      return;
    }
    const half = block.records.length >> 1;
    const middle = block.records[half]?.offset ?? block.end;
    await this.#write(this.#block(block.records.slice(0, half), block.start, middle), true);
    await this.#write(this.#block(block.records.slice(half), middle, block.end), true);
  }

  async #apply(writer: BlockWriter<Plan>, plan: Plan, verify: boolean): Promise<void> {
    let mayBeStored = verify;
    await this.#retry(async () => {
      // Before each try: ClickHouse may come back with other tables, in which the counts that the plan has read are wrong.
      await this.#checkTables();
      const attempt = { verify: mayBeStored, confirm: () => this.#confirmOwnership() };
      mayBeStored = true;
      await writer.apply(plan, attempt);
    });
  }

  /** Repeats while the cause is `Unavailable`, with growing pauses, as long as the partition is ours. */
  async #retry<T>(work: () => Promise<T>): Promise<T> {
    const { topic, logger } = this.#options;
    const { partition, signal } = this.#owned;
    return await retryUntilAvailable(work, {
      signal,
      onDelay: (cause, backoffMs) => logger.error('block_delayed', cause, { topic, partition, backoffMs }),
    });
  }
}

/** Ends a run of blocks; the next one begins where the group is then. */
class RestartRun extends Error {}

const TRUNCATED_MESSAGE =
  'the log was cut: records that had been written are no longer in it, their rows are; see the table truncations';

/** Metadata has little room, and foreign producers may write any header. */
const MAX_ID_CHARACTERS = 64;

/** The append id or, of a record without one, a digest of its key and value. */
export function recordIdOf({ key, value, headers }: LogRecord): string {
  const appendId = headers[APPEND_ID_HEADER];
  if (appendId !== undefined && appendId.length <= MAX_ID_CHARACTERS) return appendId;
  const digest = createHash('sha256').update(`${key?.length} ${key}`);
  return digest.update(value ?? '').digest('base64url');
}

function encodeCommit({ offset, ...metadata }: CommitMetadata): Committed {
  return { offset, metadata: Object.keys(metadata).length === 0 ? '' : JSON.stringify(metadata) };
}
