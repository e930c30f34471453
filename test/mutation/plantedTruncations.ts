/** Planted bugs in code that detects or repairs a truncation of the log. */
import type { PlantedBug } from './plantedBugs.ts';

const BLOCKS = 'services/runtime/src/consumer/blocks.ts';
const BLOCK_TRUNCATIONS_TEST = 'services/runtime/src/consumer/blockTruncations.test.ts';
const FIND_TRUNCATION = 'services/runtime/src/log/truncation/findTruncation.ts';
const FIND_TRUNCATION_TEST = 'services/runtime/src/log/truncation/findTruncation.test.ts';
const DECIDE_EVENTS = 'services/linker/src/core/decideEvents.ts';
const DECIDE_EVENTS_TEST = 'services/linker/src/core/decideEvents.test.ts';
const OUTBOX = 'services/linker/src/outbox.ts';
const KAFKA = 'services/runtime/src/log/kafka';
const PROJECTION = 'services/runtime/src/log/projection/projection.ts';

export const PLANTED_TRUNCATIONS: readonly PlantedBug[] = [
  {
    name: 'append retried after a truncation',
    lost: 'a report that arrived in between is not linked to events that were lost by a truncation and appended again',
    file: DECIDE_EVENTS,
    text: 'if (isDuplicate && !state.wasTruncated && !isReplayed)',
    by: 'if (isDuplicate && !isReplayed)',
    tests: [DECIDE_EVENTS_TEST],
  },
  {
    name: 'progress in a truncated log trusted',
    lost: 'after a truncation, a report is never linked to events that reuse the offsets of lost events',
    file: PROJECTION,
    text: 'known < leaderEpoch;',
    by: 'false;',
    tests: ['services/linker/src/lookUps/lookUps.test.ts'],
  },
  {
    name: 'append id of a lost report reused',
    lost: 'a report that is sent again after a truncation is answered with events that consumers drop as duplicates',
    file: 'services/ingest/src/events/core/accept.ts',
    text: '{first?.id}',
    by: '{first === undefined}',
    tests: ['services/ingest/src/events/core/accept.test.ts'],
  },
  {
    name: 'epoch of fetched records ignored',
    lost: 'a consumer does not notice that the log was truncated and has grown again',
    file: `${KAFKA}/read/fetchProtocol.ts`,
    text: 'out.int32BE(lastFetchedEpoch);',
    by: 'out.int32BE(-1);',
    tests: [`${KAFKA}/read/fetchRequest.test.ts`],
  },
  {
    name: 'epoch of a position after a truncation lost',
    lost: 'the linker misses a second truncation at a lower offset and skips the records after it',
    file: OUTBOX,
    text: 'this.advance(topic, offset, null, upToEpoch);',
    by: 'this.advance(topic, offset);',
    tests: ['services/linker/src/outbox.int.test.ts'],
  },
  {
    name: 'epoch of a position ignored',
    lost: 'a projector does not notice a truncation that happened while it was stopped',
    file: BLOCKS,
    text: 'this.#owned.seek(topic, offset, pendingTo === undefined ? last?.leaderEpoch : undefined);',
    by: 'this.#owned.seek(topic, offset);',
    tests: [BLOCK_TRUNCATIONS_TEST],
  },
  {
    name: 'truncation missed',
    lost: 'records that reuse the offsets of lost records are never projected',
    file: FIND_TRUNCATION,
    text: "if (proof !== 'other' && isHighestSame && processedTo <= truncatedFrom) return undefined;",
    by: 'if (isHighestSame && processedTo <= truncatedFrom) return undefined;',
    tests: [FIND_TRUNCATION_TEST],
  },
  {
    name: 'rows of lost records taken for rows of new records',
    lost: 'new records whose offsets have rows of lost records are never projected',
    file: FIND_TRUNCATION,
    text: 'if ((await storedRows.rowNamesOf(record)).includes(row.name)) return;',
    by: 'if ((await storedRows.rowNamesOf(record)).length > 0) return;',
    tests: [FIND_TRUNCATION_TEST],
  },
  {
    name: 'lowest stored row compared',
    lost: 'new records in the second half of a block are never projected',
    file: FIND_TRUNCATION,
    text: 'nearestRow({ above: start - 1, below: end, about: end })',
    by: 'nearestRow({ above: start - 1, below: end, about: start })',
    tests: [FIND_TRUNCATION_TEST],
  },
  {
    name: 'stored rows not compared with a block',
    lost: 'a truncation after the search for truncations hides the new records permanently',
    file: BLOCKS,
    text: 'if (verify) await this.#retry(() => checkStoredRows(this.#options.storedRows, block));',
    by: '',
    tests: [BLOCK_TRUNCATIONS_TEST],
  },
  {
    name: 'stored rows above the end of the log ignored',
    lost: 'records that the log gets later at these offsets are never projected',
    file: BLOCKS,
    text: 'if (highest !== undefined && highest.offset >= this.#verifyBelow) throw new RestartRun();',
    by: '',
    tests: [BLOCK_TRUNCATIONS_TEST],
  },
  {
    name: 'repair before late inserts have ended',
    lost: 'after a truncation, event counts and quotas include lost records twice',
    file: BLOCKS,
    text: 'if (this.#startsWithPending) await this.#waitUntil(this.#previousInsertsEndAtMs);',
    by: '',
    tests: [BLOCK_TRUNCATIONS_TEST],
  },
  {
    name: 'failed insert taken for a finished insert',
    lost: 'after a truncation, the counts of a slow ClickHouse server include lost records',
    file: BLOCKS,
    text: 'this.#failedInsertsEndAtMs = this.#options.clock.now() + this.#options.insertsEndWithinMs;',
    by: '',
    tests: [BLOCK_TRUNCATIONS_TEST],
  },
  {
    name: 'truncation of an announced block not checked',
    lost: 'a partition without new records keeps half of a block, whose events are not counted',
    file: BLOCKS,
    text: 'if (batch === undefined) await this.#checkEnd(pendingTo);',
    by: '',
    tests: [BLOCK_TRUNCATIONS_TEST],
  },
  {
    name: 'cache beyond the end of the log trusted',
    lost: 'a report that is retried right after a truncation is stored twice, and so are its inline events',
    file: 'services/ingest/src/entityCache/entityCache.ts',
    text: 'if (end < minOffset) throwLagging();',
    by: '',
    tests: ['services/ingest/src/entityCache/entityCache.int.test.ts'],
  },
];
