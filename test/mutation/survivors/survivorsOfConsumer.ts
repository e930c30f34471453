/** Survivors in the code with which consumers write blocks. Part of `survivors.ts`. */
import { ALWAYS_DEFINED, NO_ENTRY, type Survivors } from './reasons.ts';

const CONSUMER = 'services/runtime/src/consumer';

export const CONSUMER_SURVIVORS: readonly Survivors[] = [
  {
    file: `${CONSUMER}/findTruncation.ts`,
    line: "let same = proof === 'same'",
    reason: 'time: the last record is compared again',
  },
  {
    file: `${CONSUMER}/findTruncation.ts`,
    line: 'for (let about = other',
    reason: 'time: a different number of rows is compared before the last unchanged row is found',
  },
  {
    file: `${CONSUMER}/deadLetters.ts`,
    line: 'if (id !== undefined) remember(ids, id);',
    reason: 'no caller looks up a dead letter without an id',
  },
  {
    file: `${CONSUMER}/deadLetters.ts`,
    line: 'if (ids.size > MAX_CACHED_IDS',
    reason: 'a memory limit; a test with this number of dead letters would take minutes',
  },
  {
    file: `${CONSUMER}/deadLetters.ts`,
    line: 'const share = this.#processed >= WINDOW_RECORDS',
    reason: 'the consumer stops one record of a thousand earlier or later',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: "options.logger.info('partition_lost'",
    reason: 'a log message for operators, who also see the coordinator’s log message',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: '#isNewPartition = false;',
    reason: 'the field is set before the first record is read',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'if (batch === undefined) await this.#checkEnd',
    reason: 'the end offset is requested more often',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'if (offset < position) throw new LogTruncated',
    reason:
      'if the log ends exactly at the end of the block, findTruncation finds no truncation; an error without its fields does not compile',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'const records: LogRecord[] = [];',
    reason: 'Stryker’s string has no offset and is filtered out',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'records.push(...(batch?.records',
    reason: 'Stryker’s string has no offset and is filtered out',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'if (this.#owned.signal.aborted) return;',
    reason: 'the next commit of a lost partition is rejected',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'if (this.#hasCommit && !holds) this.#verifyBelow',
    reason:
      'more verification only takes time; less verification misses an insert that was acknowledged and dropped, which lostOffsets.int.test.ts tests on ClickHouse',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'if (holds && position < this.#verifyBelow)',
    reason: 'rows after the end of the log come from a truncation, which is repaired first',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'if (waitMs <= 0) return;',
    reason: 'a wait of zero',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'let deadlineMs = clock.now() + IDLE',
    reason: 'time: the next round continues to read',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'bytes += batch.records.reduce',
    reason: 'a record without a value is a tombstone, and projected topics have no tombstones',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'if (bytes >= MAX_BLOCK_BYTES ||',
    reason: 'differs only for a block of exactly the maximum size; a read of zero bytes returns no records',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'return Math.max(clock.now() + SETTLE_MS',
    reason: 'time: records that arrive together are written as two blocks',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'return this.#leaderEpoch === undefined ?',
    reason: 'an undefined field is not part of the encoded commit',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'const metadata = this.#tablesId === undefined',
    reason: 'the id of the tables is read before the first commit',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'this.#hasCommit = true;',
    reason: 'time: more blocks are verified after a truncation',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'this.#ownershipProvenAtMs <= OWNERSHIP_PROOF_MS',
    reason: 'differs only for exactly this duration',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'const upToEpoch = this.#leaderEpoch ??',
    reason:
      'differs only after transaction markers without any earlier record; the stored rows then reveal a truncation',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'const known = upToEpoch === undefined',
    reason:
      'differs only after transaction markers without any earlier record; the stored rows then reveal a truncation',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: '(proof === undefined ? known :',
    reason: 'an undefined field is not part of the encoded commit',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'const middle = block.records[half]?.offset',
    reason: 'a block that is split has at least two records',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: "digest.update(value ?? '')",
    reason: 'any text can represent a missing value',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'Object.keys(metadata).length === 0',
    reason: 'different metadata without information',
  },
  {
    file: `${CONSUMER}/deadLetters.ts`,
    line: 'if (stored === undefined) return;',
    reason: 'a record always has a part to store',
  },
  {
    file: `${CONSUMER}/deadLetters.ts`,
    line: 'if (!(error instanceof RecordTooLarge) ||',
    reason: 'if nothing more can be omitted, the same error is thrown again',
  },
  {
    file: `${CONSUMER}/findTruncation.ts`,
    line: 'end: Math.max(processedTo, (highest?.offset',
    reason: 'a value for operators that differs only for a log that was truncated at its second record',
  },
  {
    file: `${CONSUMER}/findTruncation.ts`,
    line: 'if (batch === undefined && offset >=',
    reason: 'time: the end of the log is requested for each record',
  },
  {
    file: `${CONSUMER}/progress.ts`,
    line: '): () => void {',
    reason: 'progress.test.ts detects the mutant in a test that sets the clock, which this runner skips',
  },
  {
    file: `${CONSUMER}/progress.ts`,
    line: 'const measure = watchProgress({',
    reason: 'progress.test.ts detects the mutant in a test that sets the clock, which this runner skips',
  },
  {
    file: `${CONSUMER}/progress.ts`,
    line: 'const check = async (): Promise<string',
    reason: 'progress.test.ts detects the mutant in a test that sets the clock, which this runner skips',
  },
  {
    file: `${CONSUMER}/progress.ts`,
    line: 'onLag(lagRecords)',
    reason: 'progress.test.ts detects the mutant in a test that sets the clock, which this runner skips',
  },
  {
    file: `${CONSUMER}/progress.ts`,
    line: 'deps.health.check(name, check)',
    reason: 'progress.test.ts detects the mutant in a test that sets the clock, which this runner skips',
  },
  {
    file: `${CONSUMER}/progress.ts`,
    line: 'const timer = setInterval(',
    reason: 'progress.test.ts detects the mutant in a test that sets the clock, which this runner skips',
  },
  {
    file: `${CONSUMER}/progress.ts`,
    line: 'return () => clearInterval(timer)',
    reason: 'progress.test.ts detects the mutant in a test that sets the clock, which this runner skips',
  },
  {
    file: `${CONSUMER}/progress.ts`,
    line: 'const own = activity === undefined',
    reason: 'progress.test.ts detects the mutant in a test that sets the clock, which this runner skips',
  },
  { file: `${CONSUMER}/progress.ts`, line: 'nowMs - (this.#marks.get(partition)', reason: ALWAYS_DEFINED },
  { file: `${CONSUMER}/progress.ts`, line: 'const ranges = isNeeded ?', reason: NO_ENTRY },
  {
    file: `${CONSUMER}/serviceDeps.ts`,
    line: 'export const NO_ERASURES',
    reason: 'the projector’s erased.int.test.ts detects the mutant',
  },
  {
    file: `${CONSUMER}/serviceDeps.ts`,
    line: '}): Erasures {',
    reason: 'the projector’s erased.int.test.ts detects the mutant',
  },
  {
    file: `${CONSUMER}/serviceDeps.ts`,
    line: 'directory.caughtUp().then(',
    reason: 'the projector’s erased.int.test.ts detects the mutant',
  },
  {
    file: `${CONSUMER}/addedPartitions.ts`,
    line: 'Math.abs(clock.now() - refreshedAtMs)',
    reason: 'the brokers receive more requests; the test waits for a later refresh',
  },
  {
    file: `${CONSUMER}/insertOnce.ts`,
    line: 'const tokens = [token,',
    reason: 'the last token is unique, so ClickHouse drops no row of the insert',
  },
  {
    file: `${CONSUMER}/insertOnce.ts`,
    line: 'if (rows.length === 0) return;',
    reason: 'time: the rows are queried for each token',
  },
  {
    file: `${CONSUMER}/groupLag.ts`,
    line: 'if (timestampMs !== undefined) known.set(',
    reason: 'differs only for a partition that was not read in time: NaN is null in JSON too',
  },
  {
    file: `${CONSUMER}/groupLag.ts`,
    line: 'if (this.#previous === undefined || before',
    reason: 'without an earlier poll, or without a leader at that time, there is no earlier position',
  },
  {
    file: `${CONSUMER}/groupLag.ts`,
    line: 'if (first === undefined) return;',
    reason: 'a batch has at least one record',
  },
  {
    file: `${CONSUMER}/groupLag.ts`,
    line: 'all.resolve();',
    reason: 'a closed reader no longer waits',
  },
  {
    file: `${CONSUMER}/commitMetadata.ts`,
    line: "(metadata === '' ? {}",
    reason: 'an empty text is invalid JSON, which gives the same result',
  },
  {
    file: `${CONSUMER}/commitMetadata.ts`,
    line: 'const known = upToEpoch === undefined',
    reason: 'an undefined field is not part of the encoded commit',
  },
];
