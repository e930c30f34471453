/** Those of `survivors.ts` that are of the room in which consumers make blocks. */
import { ALWAYS_THERE, NO_ENTRY, type Survivors } from './reasons.ts';

const CONSUMER = 'services/runtime/src/consumer';

export const CONSUMER_SURVIVORS: readonly Survivors[] = [
  {
    file: `${CONSUMER}/findTruncation.ts`,
    line: "let same = proof === 'same'",
    reason: 'time: what the last record has shown is looked at once more',
  },
  {
    file: `${CONSUMER}/findTruncation.ts`,
    line: 'for (let about = other',
    reason: 'time: how many rows are looked at until the last one that is the same',
  },
  {
    file: `${CONSUMER}/deadLetters.ts`,
    line: 'if (id !== undefined) remember(ids, id);',
    reason: 'nobody asks for a letter without an id',
  },
  {
    file: `${CONSUMER}/deadLetters.ts`,
    line: 'if (ids.size > MAX_CACHED_IDS',
    reason: 'a bound of memory: so many letters would take a test minutes',
  },
  {
    file: `${CONSUMER}/deadLetters.ts`,
    line: 'const share = this.#processed >= WINDOW_RECORDS',
    reason: 'one record of a thousand earlier or later',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: "options.logger.info('partition_lost'",
    reason: 'a line for whoever reads logs; the coordinator’s says it, too',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: '#isNewPartition = false;',
    reason: 'it is set before the first record is read',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'if (batch === undefined) await this.#checkEnd',
    reason: 'the end is asked for more often',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'if (offset < position) throw new LogTruncated',
    reason:
      'where the log ends just where the block does findTruncation finds none; an error without its fields does not compile',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'const records: LogRecord[] = [];',
    reason: 'a text has no offset, and is left out',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'records.push(...(batch?.records',
    reason: 'a text has no offset, and is left out',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'if (this.#owned.signal.aborted) return;',
    reason: 'the next commit of a partition that is lost is refused',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'if (this.#hasCommit && !holds) this.#verifyBelow',
    reason:
      'more is verified, which takes time; or less, of an insert that was acknowledged and dropped, which ClickHouse alone shows: lostOffsets.int.test.ts',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'if (holds && position < this.#verifyBelow)',
    reason: 'rows behind the end of the log are of a cut, which is repaired before',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'if (waitMs <= 0) return;',
    reason: 'a wait of nothing',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'let deadlineMs = clock.now() + IDLE',
    reason: 'time: the next round goes on reading',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'bytes += batch.records.reduce',
    reason: 'a record without a value is a tombstone, and no topic that is projected has any',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'if (bytes >= MAX_BLOCK_BYTES ||',
    reason: 'a block of just so many bytes; and where none may be read any more, none is',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'return Math.max(clock.now() + SETTLE_MS',
    reason: 'time: what comes together is written as two blocks',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'return this.#leaderEpoch === undefined ?',
    reason: 'what is undefined is not in the text of a commit',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'const metadata = this.#tablesId === undefined',
    reason: 'the tables are asked for before the first commit',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'this.#hasCommit = true;',
    reason: 'time: behind a cut more is verified',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'this.#ownershipProvenAtMs <= OWNERSHIP_PROOF_MS',
    reason: 'just so long is as good',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'const upToEpoch = this.#leaderEpoch ??',
    reason: 'behind markers alone, where no record was ever named; the tables tell of a cut then',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'const known = upToEpoch === undefined',
    reason: 'behind markers alone, where no record was ever named; the tables tell of a cut then',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: '(proof === undefined ? known :',
    reason: 'what is undefined is not in the text of a commit',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'const middle = block.records[half]?.offset',
    reason: 'a block that is halved has two records or more',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: "digest.update(value ?? '')",
    reason: 'any text stands for no value',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'Object.keys(metadata).length === 0',
    reason: 'a note that says nothing, in other words',
  },
  {
    file: `${CONSUMER}/deadLetters.ts`,
    line: 'if (stored === undefined) return;',
    reason: 'of a record there is always something to keep',
  },
  {
    file: `${CONSUMER}/deadLetters.ts`,
    line: 'if (!(error instanceof RecordTooLarge) ||',
    reason: 'with nothing left to leave out the same error comes again',
  },
  {
    file: `${CONSUMER}/findTruncation.ts`,
    line: 'end: Math.max(processedTo, (highest?.offset',
    reason: 'told to operators, of a log that was cut at its second record',
  },
  {
    file: `${CONSUMER}/findTruncation.ts`,
    line: 'if (batch === undefined && offset >=',
    reason: 'time: where the log ends is asked for at each record',
  },
  {
    file: `${CONSUMER}/progress.ts`,
    line: '): () => void {',
    reason: 'progress.test.ts notices it, in a test that sets the clock and is left out here',
  },
  {
    file: `${CONSUMER}/progress.ts`,
    line: 'const measure = watchProgress({',
    reason: 'progress.test.ts notices it, in a test that sets the clock and is left out here',
  },
  {
    file: `${CONSUMER}/progress.ts`,
    line: 'const check = async (): Promise<string',
    reason: 'progress.test.ts notices it, in a test that sets the clock and is left out here',
  },
  {
    file: `${CONSUMER}/progress.ts`,
    line: 'onLag(lagRecords)',
    reason: 'progress.test.ts notices it, in a test that sets the clock and is left out here',
  },
  {
    file: `${CONSUMER}/progress.ts`,
    line: 'deps.health.check(name, check)',
    reason: 'progress.test.ts notices it, in a test that sets the clock and is left out here',
  },
  {
    file: `${CONSUMER}/progress.ts`,
    line: 'const timer = setInterval(',
    reason: 'progress.test.ts notices it, in a test that sets the clock and is left out here',
  },
  {
    file: `${CONSUMER}/progress.ts`,
    line: 'return () => clearInterval(timer)',
    reason: 'progress.test.ts notices it, in a test that sets the clock and is left out here',
  },
  {
    file: `${CONSUMER}/progress.ts`,
    line: 'const own = activity === undefined',
    reason: 'progress.test.ts notices it, in a test that sets the clock and is left out here',
  },
  { file: `${CONSUMER}/progress.ts`, line: 'nowMs - (this.#marks.get(partition)', reason: ALWAYS_THERE },
  { file: `${CONSUMER}/progress.ts`, line: 'const ranges = isNeeded ?', reason: NO_ENTRY },
  {
    file: `${CONSUMER}/serviceDeps.ts`,
    line: 'export const NO_ERASURES',
    reason: 'the projector’s erased.int.test.ts notices it',
  },
  {
    file: `${CONSUMER}/serviceDeps.ts`,
    line: '}): Erasures {',
    reason: 'the projector’s erased.int.test.ts notices it',
  },
  {
    file: `${CONSUMER}/serviceDeps.ts`,
    line: 'directory.caughtUp().then(',
    reason: 'the projector’s erased.int.test.ts notices it',
  },
  {
    file: `${CONSUMER}/addedPartitions.ts`,
    line: 'Math.abs(clock.now() - refreshedAtMs)',
    reason: 'the brokers are asked more often; a look that comes later is waited for in the test',
  },
  {
    file: `${CONSUMER}/insertOnce.ts`,
    line: 'const tokens = [token,',
    reason: 'the last one is nobody else’s, and drops as little as none',
  },
  {
    file: `${CONSUMER}/insertOnce.ts`,
    line: 'if (rows.length === 0) return;',
    reason: 'time: the rows are looked for under each token',
  },
  {
    file: `${CONSUMER}/groupLag.ts`,
    line: 'if (timestampMs !== undefined) known.set(',
    reason: 'of a partition that was not read in time: no number, which is null in JSON, too',
  },
  {
    file: `${CONSUMER}/groupLag.ts`,
    line: 'if (this.#previous === undefined || before',
    reason: 'no look before, or no leader then, is no position before',
  },
  {
    file: `${CONSUMER}/groupLag.ts`,
    line: 'if (first === undefined) return;',
    reason: 'a batch has a record',
  },
  {
    file: `${CONSUMER}/groupLag.ts`,
    line: 'all.resolve();',
    reason: 'a reader that is closed waits no more',
  },
  {
    file: `${CONSUMER}/commitMetadata.ts`,
    line: "(metadata === '' ? {}",
    reason: 'an empty text is no JSON, which says as little',
  },
  {
    file: `${CONSUMER}/commitMetadata.ts`,
    line: 'const known = upToEpoch === undefined',
    reason: 'what is undefined is not in the text of a commit',
  },
];
