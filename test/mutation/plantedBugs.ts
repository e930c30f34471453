/**
 * Bugs that would break a guarantee. Each bug replaces one text of the product by another. `runPlanted.ts` plants one bug at
 * a time in a copy of the sources and runs the tests that must fail.
 */

import { PLANTED_IN_BYTES } from './plantedInBytes.ts';

export interface PlantedBug {
  readonly name: string;
  /** Effect that a user of Questlog would see. */
  readonly lost: string;
  readonly file: string;
  /** Text of the product. Occurs exactly once in the file. */
  readonly text: string;
  /** Replacement of `text`. */
  readonly by: string;
  /** Test files, at least one of which must fail. */
  readonly tests: readonly string[];
}

const BLOCKS = 'services/runtime/src/consumer/blocks.ts';
const BLOCKS_TEST = 'services/runtime/src/consumer/blocks.test.ts';
const INSERT_ONCE = 'services/runtime/src/consumer/insertOnce.ts';
const INSERT_ONCE_TEST = 'services/runtime/src/consumer/insertOnce.test.ts';
const STORE_EVENTS = 'services/ingest/src/events/storeEvents.ts';
const STORE_EVENTS_TEST = 'services/ingest/src/events/storeEvents.test.ts';
const PLAN_EVENTS = 'services/projector/src/events/core/planEvents.ts';
const PLAN_EVENTS_TEST = 'services/projector/src/events/core/planEvents.test.ts';
const DECIDE_EVENTS = 'services/linker/src/core/decideEvents.ts';
const DECIDE_EVENTS_TEST = 'services/linker/src/core/decideEvents.test.ts';
const OUTBOX = 'services/linker/src/outbox.ts';
const KAFKA = 'services/runtime/src/log/kafka';
const APPENDER = `${KAFKA}/append/partitionAppender.ts`;
const APPENDER_TEST = `${KAFKA}/append/partitionAppender.test.ts`;
const EMBEDDED = 'services/runtime/src/log/embedded';

export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    name: 'ack before append',
    lost: 'a game hears 201 of events that no log has',
    file: STORE_EVENTS,
    text: 'const { baseOffset } = await deps.log.append(TOPICS.events, partition, values);',
    by: 'const baseOffset = 0; deps.log.append(TOPICS.events, partition, values).catch(() => {});',
    tests: [STORE_EVENTS_TEST],
  },
  {
    name: 'ack before the disk has it',
    lost: 'a full disk or a crash takes events that were answered 201',
    file: `${EMBEDDED}/groupCommit.ts`,
    text: 'return () => resolve(result);',
    by: 'resolve(result); return () => {};',
    tests: [`${EMBEDDED}/embeddedLog.test.ts`],
  },
  {
    name: 'commit before insert',
    lost: 'a crash between the two leaves out a block of events for ever',
    file: BLOCKS,
    text: 'const plan = await this.#retry(() => writer.plan(block));',
    by: 'const plan = await this.#retry(() => writer.plan(block)); await this.#commit({ offset: end, last });',
    tests: [BLOCKS_TEST],
  },
  {
    name: 'offset published before insert',
    lost: 'a data team that loads rows below the offset misses the rows of a block for ever',
    file: BLOCKS,
    text: 'await this.#commit({ offset: start, pendingTo: end, last });',
    by: "await this.#commit({ offset: start, pendingTo: end, last }); this.#options.onProjected(end, this.#tables ?? '');",
    tests: [BLOCKS_TEST],
  },
  {
    name: 'verify skipped by whoever takes over',
    lost: 'the rows of a block that was half written are there twice',
    file: BLOCKS,
    text: 'await this.#write(block, true);',
    by: 'await this.#write(block, false);',
    tests: [BLOCKS_TEST],
  },
  {
    name: 'verify skipped by an insert',
    lost: 'the rows of an insert whose answer was lost are there twice',
    file: INSERT_ONCE,
    text: 'if (!verify) {',
    by: 'if (verify || !verify) {',
    tests: [INSERT_ONCE_TEST],
  },
  {
    name: 'a token believed',
    lost: 'ClickHouse acknowledges an insert under a token that it knows and drops it: the events are gone',
    file: INSERT_ONCE,
    text: 'for (const next of tokens) {',
    by: 'for (const next of tokens.slice(0, 1)) {',
    tests: [INSERT_ONCE_TEST],
  },
  {
    name: 'ownership not asked before an insert',
    lost: 'a projector that wakes up late inserts what its successor has inserted',
    file: INSERT_ONCE,
    text: 'await confirm();',
    by: '',
    tests: [INSERT_ONCE_TEST],
  },
  {
    name: 'group offsets believed',
    lost: 'offsets that are set back make two rows of each event',
    file: BLOCKS,
    text: 'if (this.#hasCommit && !holds) this.#verifyBelow = position + 1;',
    by: 'if (this.#hasCommit) this.#verifyBelow = position + 1;',
    tests: [BLOCKS_TEST],
  },
  {
    name: 'tables of another name believed',
    lost: 'once a backup is restored, what the log has and the backup has not is never projected again',
    file: BLOCKS,
    text: 'if (committedTables === undefined || committedTables === this.#tablesId) return;',
    by: 'if (this.#tablesId !== undefined) return;',
    tests: [BLOCKS_TEST],
  },
  {
    name: 'look-ups in tables of another name',
    lost: 'a linker that starts beside a ClickHouse from a backup leaves out links, for good',
    file: 'services/linker/src/lookUps/lookUps.ts',
    text: 'if (tableUuids.length === 0) return undefined;',
    by: 'if (tableUuids.length >= 0) return undefined;',
    tests: ['services/linker/src/lookUps/lookUps.test.ts'],
  },
  {
    name: 'reads of tables of another name',
    lost: 'beside a ClickHouse from a backup, files are removed whose reports are not back yet',
    file: 'services/ingest/src/entityCache/projectionProgress.ts',
    text: 'if (currentTableUuid === undefined || tableUuids.length === 0) return true;',
    by: 'if (tableUuids.length >= 0) return true;',
    tests: ['services/ingest/src/entityCache/projectionProgress.test.ts'],
  },
  {
    name: 'refused record without a dead letter',
    lost: 'an event that ClickHouse refuses vanishes without a word',
    file: BLOCKS,
    text: 'await this.#retry(() => writer.deadLetter(block, cause));',
    by: '',
    tests: [BLOCKS_TEST],
  },
  {
    name: 'append id ignored by the projector',
    lost: 'a request that a game sends again is stored and counted twice',
    file: PLAN_EVENTS,
    text: 'if (seen(message) || inBlock.has(message.appendId)) return false;',
    by: '',
    tests: [PLAN_EVENTS_TEST],
  },
  {
    name: 'append id ignored by the linker',
    lost: 'a bug tracker gets an event of a report twice',
    file: DECIDE_EVENTS,
    text: 'const isDuplicate = state.appends.has(record.appendId);',
    by: 'const isDuplicate = false;',
    tests: [DECIDE_EVENTS_TEST],
  },
  {
    name: 'append that comes again after a cut',
    lost: 'a report of meanwhile is not linked to events that a cut took away and that were appended again',
    file: DECIDE_EVENTS,
    text: 'if (isDuplicate && !state.wasTruncated && !isReplayed)',
    by: 'if (isDuplicate && !isReplayed)',
    tests: [DECIDE_EVENTS_TEST],
  },
  {
    name: 'projector of an older log believed',
    lost: 'after a cut a report is never linked to events that came at the offsets of lost ones',
    file: 'services/linker/src/lookUps/lookUps.ts',
    text: 'known < leaderEpoch;',
    by: 'false;',
    tests: ['services/linker/src/lookUps/lookUps.test.ts'],
  },
  {
    name: 'append id of a lost report used again',
    lost: 'a report that comes again after a cut is answered with events that consumers drop',
    file: 'services/ingest/src/events/core/accept.ts',
    text: '{first?.id}',
    by: '{first === undefined}',
    tests: ['services/ingest/src/events/core/accept.test.ts'],
  },
  {
    name: 'rollup added again',
    lost: 'after a crash a tenant’s quota counts events twice',
    file: PLAN_EVENTS,
    text: 'if (offset <= known.lastOffset) return;',
    by: '',
    tests: [PLAN_EVENTS_TEST],
  },
  {
    name: 'rollup as a difference',
    lost: 'a tenant’s quota falls back to what the last block added',
    file: PLAN_EVENTS,
    text: 'count: known.count + events, lastOffset: offset',
    by: 'count: events, lastOffset: offset',
    tests: [PLAN_EVENTS_TEST],
  },
  {
    name: 'quota reservation kept',
    lost: 'after an outage of the log a tenant’s events are flagged too early',
    file: STORE_EVENTS,
    text: 'for (const { events } of records) ledger?.release(events);',
    by: '',
    tests: [STORE_EVENTS_TEST],
  },
  {
    name: 'epoch of what was read ignored',
    lost: 'a log that was cut and has grown again is read on as if nothing had happened',
    file: `${KAFKA}/read/fetchProtocol.ts`,
    text: 'writer.int32(lastFetchedEpoch);',
    by: 'writer.int32(-1);',
    tests: [`${KAFKA}/read/fetchRequest.test.ts`],
  },
  {
    name: 'epoch of a position behind a cut forgotten',
    lost: 'a second cut further down, before the linker reads on, is not noticed, and what is behind it is passed over',
    file: OUTBOX,
    text: 'this.advance(topic, offset, null, upToEpoch);',
    by: 'this.advance(topic, offset);',
    tests: ['services/linker/src/outbox.int.test.ts'],
  },
  {
    name: 'epoch of a position ignored',
    lost: 'a projector that was away does not notice that the log was cut meanwhile',
    file: BLOCKS,
    text: 'this.#owned.seek(topic, offset, pendingTo === undefined ? last?.leaderEpoch : undefined);',
    by: 'this.#owned.seek(topic, offset);',
    tests: ['services/runtime/src/consumer/blockTruncations.test.ts'],
  },
  {
    name: 'cut overlooked',
    lost: 'records that got the offsets of lost ones are never projected',
    file: 'services/runtime/src/consumer/findTruncation.ts',
    text: "if (proof !== 'other' && isHighestSame && processedTo <= truncatedFrom) return undefined;",
    by: 'if (isHighestSame && processedTo <= truncatedFrom) return undefined;',
    tests: ['services/runtime/src/consumer/findTruncation.test.ts'],
  },
  {
    name: 'CRC ignored',
    lost: 'a byte that flips on its way from the broker is stored',
    file: `${KAFKA}/read/recordBatches.ts`,
    text: 'if (crc32c(batch, ATTRIBUTES) !== batch.readUInt32BE(CRC))',
    by: 'if (batch.length === 0)',
    tests: [`${KAFKA}/read/fetcher.test.ts`],
  },
  {
    name: 'last look-up left out',
    lost: 'a report waits for ever for events that came while nobody matched them',
    file: 'services/linker/src/core/jobs.ts',
    text: "const KINDS = ['unlink', 'check', 'ask', 'close', 'late'] as const;",
    by: "const KINDS = ['unlink', 'check', 'ask', 'late'] as const;",
    tests: ['test/simulation/linkSimulation.test.ts'],
  },
  {
    name: 'repeat of the oldest key overlooked',
    lost: 'a keyed request that comes again late is linked twice',
    file: DECIDE_EVENTS,
    text: 'millisOf(idempotency.key) <= appends.since',
    by: 'millisOf(idempotency.key) < appends.since',
    tests: [DECIDE_EVENTS_TEST],
  },
  {
    name: 'events of another tenant linked',
    lost: 'a report shows what players of somebody else’s game did',
    file: DECIDE_EVENTS,
    text: 'record.projectId === projectId && record.tenantId === tenantId;',
    by: 'record.projectId === projectId || record.tenantId !== tenantId;',
    tests: [DECIDE_EVENTS_TEST],
  },
  {
    name: 'linker believes its group',
    lost: 'offsets that are lost have a bug tracker get every event again',
    file: OUTBOX,
    text: 'const known = position ?? (await groupPosition(log, partition));',
    by: 'const known = (await groupPosition(log, partition)) ?? position;',
    tests: ['services/linker/src/positions.test.ts'],
  },
  {
    name: 'a bound a partition removed',
    lost: 'one sick partition takes all the room, and every tenant gets 503',
    file: APPENDER,
    text: 'if (this.#reserved > 0 && partitionBytes + bytes > this.#maxBytes - this.#reserved) return false;',
    by: 'if (this.#reserved > 0 && bytes > this.#maxBytes - this.#reserved) return false;',
    tests: [APPENDER_TEST],
  },
  {
    name: 'several sends in flight',
    lost: 'when a broker dies, events that were answered 201 are gone, twice or out of order',
    file: APPENDER,
    text: 'this.#running ??= this.#run();',
    by: 'this.#running = this.#run();',
    tests: [APPENDER_TEST],
  },
  {
    name: 'fencing removed from the embedded log',
    lost: 'a linker that was replaced tells links that its successor tells too',
    file: `${EMBEDDED}/transactionalProducer.ts`,
    text: 'if (this.#deps.newest.get(this.#transactionalId) === this) return;',
    by: 'if (this.#deps.newest.has(this.#transactionalId)) return;',
    tests: [`${EMBEDDED}/embeddedLog.contract.test.ts`],
  },
  {
    name: 'fencing removed from the linker',
    lost: 'two owners of a partition tell the same links',
    file: OUTBOX,
    text: 'deps.log.transactionalProducer(',
    by: 'deps.log.transactionalProducer(performance.now() + ',
    tests: ['services/linker/src/outbox.int.test.ts'],
  },
  {
    name: 'fencing removed from Kafka’s transactions',
    lost: 'the same on Kafka, which alone can show it: the brokers fence',
    file: `${KAFKA}/append/transactionalProducer.ts`,
    text: '{ id, timeoutMs: TRANSACTION_TIMEOUT_MS }',
    by: '{ id: id + performance.now(), timeoutMs: TRANSACTION_TIMEOUT_MS }',
    tests: [`${KAFKA}/kafkaLog.contract.kafka.test.ts`],
  },
  {
    name: 'a sequence used twice',
    lost: 'an acknowledged append is not there: the brokers take it for the one before',
    file: `${KAFKA}/append/partitionProducer.ts`,
    text: 'sequenceState.sequence = nextSequence(sequenceState.sequence, records.length);',
    by: '',
    tests: [`${KAFKA}/append/producers.test.ts`],
  },
  {
    name: 'a producer used again after a send of unknown outcome',
    lost: 'an acknowledged append is not there: the brokers take it for the one of unknown outcome',
    file: `${KAFKA}/append/partitionProducer.ts`,
    text: 'this.#sequence = undefined;',
    by: '',
    tests: [`${KAFKA}/append/producers.test.ts`],
  },
  {
    name: 'a step of a transaction repeated that may come late',
    lost: 'a transaction is half there: the step of one before ended it',
    file: `${KAFKA}/append/transactionSteps.ts`,
    text: 'needsResponseBeforeRetry: true,',
    by: 'needsResponseBeforeRetry: false,',
    tests: [`${KAFKA}/append/transactionSteps.test.ts`],
  },
  {
    name: 'written on by who lost the partition',
    lost: 'counts that the successor has made anew behind a cut are overwritten by those of before',
    file: BLOCKS,
    text: 'if (!isProven || this.#owned.signal.aborted)',
    by: 'if (!isProven)',
    tests: [BLOCKS_TEST],
  },
  {
    name: 'block that was half written overlooked',
    lost: 'events whose record a cut took away, and of which the group has forgotten, stay uncounted',
    file: 'services/projector/src/truncations/storedRecords.ts',
    text: '(await find(tables.rows, { above: from, below, about: below })) ?? newest',
    by: 'newest',
    tests: ['services/projector/src/lostOffsets.int.test.ts'],
  },
  {
    name: 'cut of an announced block waited out',
    lost: 'a partition into which nothing comes keeps half a block: events that no count has',
    file: BLOCKS,
    text: 'if (batch === undefined) await this.#checkEnd(pendingTo);',
    by: '',
    tests: ['services/runtime/src/consumer/blockTruncations.test.ts'],
  },
  {
    name: 'tail beyond the end of the log believed',
    lost: 'a report that is sent twice right behind a cut is filed twice, and the events inside it are there twice',
    file: 'services/ingest/src/entityCache/entityCache.ts',
    text: 'if (end < minOffset) throwLagging();',
    by: '',
    tests: ['services/ingest/src/entityCache/entityCache.int.test.ts'],
  },
  ...PLANTED_IN_BYTES,
];
