/**
 * Bugs that would break a guarantee. Each bug replaces one text of the product by another. `runPlanted.ts` plants one bug at
 * a time in a copy of the sources and runs the tests that must fail.
 */

import { PLANTED_IN_BYTES } from './plantedInBytes.ts';
import { PLANTED_TRUNCATIONS } from './plantedTruncations.ts';

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
const PROJECTION = 'services/runtime/src/log/projection/projection.ts';
const EMBEDDED = 'services/runtime/src/log/embedded';
const CLUSTER = 'services/runtime/src/clickhouse/cluster';
const QUORUM_STORE = `${CLUSTER}/quorumStore.ts`;
const QUORUM_STORE_TEST = `${CLUSTER}/quorumStore.test.ts`;
const CLUSTER_READS = `${CLUSTER}/clusterReads.ts`;
const CLUSTER_STORE_TEST = `${CLUSTER}/clusterStore.test.ts`;

export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    name: 'acknowledged before the append',
    lost: 'clients receive 201 for events that the log does not contain',
    file: STORE_EVENTS,
    text: 'const { baseOffset } = await deps.log.append(TOPICS.events, partition, values);',
    by: 'const baseOffset = 0; deps.log.append(TOPICS.events, partition, values).catch(() => {});',
    tests: [STORE_EVENTS_TEST],
  },
  {
    name: 'acknowledged before the write to disk',
    lost: 'a full disk or a crash loses events that were answered with 201',
    file: `${EMBEDDED}/groupCommit.ts`,
    text: 'return () => resolve(result);',
    by: 'resolve(result); return () => {};',
    tests: [`${EMBEDDED}/embeddedLog.test.ts`],
  },
  {
    name: 'commit before the insert',
    lost: 'a crash between commit and insert loses a block of events permanently',
    file: BLOCKS,
    text: 'const plan = await this.#retry(() => writer.plan(block));',
    by: 'const plan = await this.#retry(() => writer.plan(block)); await this.#commit({ offset: end, last });',
    tests: [BLOCKS_TEST],
  },
  {
    name: 'offset published before the insert',
    lost: 'a data team that loads rows below the published offset misses the rows of a block permanently',
    file: BLOCKS,
    text: "await this.#commit({ offset: start, pendingTo: end, last, token: 'start' });",
    by: "await this.#commit({ offset: start, pendingTo: end, last, token: 'start' }); this.#options.onProjected(end, this.#tables.id ?? '');",
    tests: [BLOCKS_TEST],
  },
  {
    name: 'verification skipped by a new owner',
    lost: 'the rows of a partly inserted block are stored twice',
    file: BLOCKS,
    text: 'await this.#writeInTraces(block, true);',
    by: 'await this.#writeInTraces(block, false);',
    tests: [BLOCKS_TEST],
  },
  {
    name: 'verification skipped by an insert',
    lost: 'the rows of an insert whose response was lost are stored twice',
    file: INSERT_ONCE,
    text: 'if (!verify) {',
    by: 'if (verify || !verify) {',
    tests: [INSERT_ONCE_TEST],
  },
  {
    name: 'deduplication token trusted',
    lost: 'ClickHouse acknowledges an insert with a known token and drops its rows, so the events are lost',
    file: INSERT_ONCE,
    text: 'for (const next of tokens) {',
    by: 'for (const next of tokens.slice(0, 1)) {',
    tests: [INSERT_ONCE_TEST],
  },
  {
    name: 'ownership not checked before an insert',
    lost: 'a projector that resumes after a pause inserts rows that the new owner has already inserted',
    file: INSERT_ONCE,
    text: 'await confirm();',
    by: '',
    tests: [INSERT_ONCE_TEST],
  },
  {
    name: 'group offsets trusted',
    lost: 'reset offsets create two rows for each event',
    file: BLOCKS,
    text: 'if (this.#hasCommit && !holds) this.#verifyBelow = position + 1;',
    by: 'if (this.#hasCommit) this.#verifyBelow = position + 1;',
    tests: [BLOCKS_TEST],
  },
  {
    name: 'restored tables not detected',
    lost: 'after a restore, records that are in the log but not in the backup are never projected again',
    file: 'services/runtime/src/clickhouse/restored/tableUuids.ts',
    text: 'return tables !== undefined && tables !== this.#id;',
    by: 'return false;',
    tests: [BLOCKS_TEST],
  },
  {
    name: 'look-ups in restored tables',
    lost: 'a linker that starts on a restored ClickHouse omits links permanently',
    file: PROJECTION,
    text: 'if (table === undefined || tableUuids.length === 0) return undefined;',
    by: 'if (tableUuids.length >= 0) return undefined;',
    tests: ['services/linker/src/lookUps/lookUps.test.ts'],
  },
  {
    name: 'reads of restored tables',
    lost: 'on a restored ClickHouse, files are deleted while their reports are not restored yet',
    file: PROJECTION,
    text: 'return tableUuids.every((uuid) => uuid === current)',
    by: 'return tableUuids.some((uuid) => uuid === current)',
    tests: ['services/runtime/src/log/projection/projection.test.ts'],
  },
  {
    name: 'rejected record without a dead letter',
    lost: 'an event that ClickHouse rejects is lost without a trace',
    file: BLOCKS,
    text: 'await this.#insert(true, () => writer.deadLetter(block, cause));',
    by: '',
    tests: [BLOCKS_TEST],
  },
  {
    name: 'append id ignored by the projector',
    lost: 'a retried request is stored and counted twice',
    file: PLAN_EVENTS,
    text: 'if (seen(message) || inBlock.has(message.appendId)) return false;',
    by: '',
    tests: [PLAN_EVENTS_TEST],
  },
  {
    name: 'append id ignored by the linker',
    lost: 'a bug tracker receives an event of a report twice',
    file: DECIDE_EVENTS,
    text: 'const isDuplicate = state.appends.has(record.appendId);',
    by: 'const isDuplicate = false;',
    tests: [DECIDE_EVENTS_TEST],
  },
  {
    name: 'rollup added twice',
    lost: 'after a crash, events count twice against a tenant’s quota',
    file: PLAN_EVENTS,
    text: 'if (offset <= known.lastOffset) return;',
    by: '',
    tests: [PLAN_EVENTS_TEST],
  },
  {
    name: 'rollup as a difference',
    lost: 'a tenant’s usage falls back to the count of the last block',
    file: PLAN_EVENTS,
    text: 'count: known.count + events, lastOffset: offset',
    by: 'count: events, lastOffset: offset',
    tests: [PLAN_EVENTS_TEST],
  },
  {
    name: 'quota reservation kept',
    lost: 'after an outage of the log, a tenant’s events are flagged too early',
    file: STORE_EVENTS,
    text: 'for (const { events } of records) ledger?.release(events);',
    by: '',
    tests: [STORE_EVENTS_TEST],
  },
  {
    name: 'CRC ignored',
    lost: 'a byte that was changed between the broker and the consumer is stored',
    file: `${KAFKA}/read/recordBatches.ts`,
    text: 'if (crc32c(batch, ATTRIBUTES) !== batch.readUInt32BE(CRC))',
    by: 'if (batch.length === 0)',
    tests: [`${KAFKA}/read/fetcher.test.ts`],
  },
  {
    name: 'last look-up omitted',
    lost: 'a report waits without a limit for events that arrived while no linker was running',
    file: 'services/linker/src/core/jobs.ts',
    text: "const KINDS = ['unlink', 'check', 'ask', 'close', 'late'] as const;",
    by: "const KINDS = ['unlink', 'check', 'ask', 'late'] as const;",
    tests: ['test/simulation/linkSimulation.test.ts'],
  },
  {
    name: 'retry of the oldest key missed',
    lost: 'a late retry of a request with an idempotency key is linked twice',
    file: DECIDE_EVENTS,
    text: 'millisOf(idempotency.key) <= appends.since',
    by: 'millisOf(idempotency.key) < appends.since',
    tests: [DECIDE_EVENTS_TEST],
  },
  {
    name: 'events of another tenant linked',
    lost: 'a report shows the events of players of another tenant’s game',
    file: DECIDE_EVENTS,
    text: 'record.projectId === projectId && record.tenantId === tenantId;',
    by: 'record.projectId === projectId || record.tenantId !== tenantId;',
    tests: [DECIDE_EVENTS_TEST],
  },
  {
    name: 'group offsets trusted by the linker',
    lost: 'after the offsets are lost, a bug tracker receives every event again',
    file: OUTBOX,
    text: 'const known = position ?? (await groupPosition(log, partition));',
    by: 'const known = (await groupPosition(log, partition)) ?? position;',
    tests: ['services/linker/src/positions.test.ts'],
  },
  {
    name: 'limit per partition removed',
    lost: 'one failed partition uses all append memory, and every tenant receives 503',
    file: APPENDER,
    text: 'if (this.#reserved > 0 && partitionBytes + bytes > this.#maxBytes - this.#reserved) return false;',
    by: 'if (this.#reserved > 0 && bytes > this.#maxBytes - this.#reserved) return false;',
    tests: [APPENDER_TEST],
  },
  {
    name: 'several sends in flight',
    lost: 'when a broker fails, events that were answered with 201 are lost, duplicated, or out of order',
    file: APPENDER,
    text: 'this.#running ??= this.#run();',
    by: 'this.#running = this.#run();',
    tests: [APPENDER_TEST],
  },
  {
    name: 'fencing removed from the embedded log',
    lost: 'a linker that was replaced writes links that the new owner writes too',
    file: `${EMBEDDED}/transactionalProducer.ts`,
    text: 'if (this.#newest.get(this.#transactionalId) === this) return;',
    by: 'if (this.#newest.has(this.#transactionalId)) return;',
    tests: [`${EMBEDDED}/embeddedLog.contract.test.ts`],
  },
  {
    name: 'fencing removed from the linker',
    lost: 'two owners of a partition write the same links',
    file: OUTBOX,
    text: 'deps.log.transactionalProducer(',
    by: 'deps.log.transactionalProducer(performance.now() + ',
    tests: ['services/linker/src/outbox.int.test.ts'],
  },
  {
    name: 'fencing removed from Kafka’s transactions',
    lost: 'two owners of a partition write the same links on Kafka, where the brokers fence',
    file: `${KAFKA}/append/transactionalProducer.ts`,
    text: '{ id, timeoutMs: TRANSACTION_TIMEOUT_MS }',
    by: '{ id: id + performance.now(), timeoutMs: TRANSACTION_TIMEOUT_MS }',
    tests: [`${KAFKA}/kafkaLog.contract.kafka.test.ts`],
  },
  {
    name: 'sequence number used twice',
    lost: 'an acknowledged append is lost, because the brokers treat it as a duplicate of the previous append',
    file: `${KAFKA}/append/partitionProducer.ts`,
    text: 'sequenceState.sequence = nextSequence(sequenceState.sequence, records.length);',
    by: '',
    tests: [`${KAFKA}/append/producers.test.ts`],
  },
  {
    name: 'producer reused after a send with an unknown outcome',
    lost: 'an acknowledged append is lost, because the brokers treat it as a duplicate of the append with the unknown outcome',
    file: `${KAFKA}/append/partitionProducer.ts`,
    text: 'this.#sequence = undefined;',
    by: '',
    tests: [`${KAFKA}/append/producers.test.ts`],
  },
  {
    name: 'transaction step retried although it may arrive late',
    lost: 'half of a transaction is lost, because a delayed step of the previous transaction ended it',
    file: `${KAFKA}/append/transactionSteps.ts`,
    text: 'needsResponseBeforeRetry: true,',
    by: 'needsResponseBeforeRetry: false,',
    tests: [`${KAFKA}/append/transactionSteps.test.ts`],
  },
  {
    name: 'writes after the partition was lost',
    lost: 'the old owner overwrites counts that the new owner has repaired after a truncation',
    file: BLOCKS,
    text: 'if (!isProven || this.#owned.signal.aborted)',
    by: 'if (!isProven)',
    tests: [BLOCKS_TEST],
  },
  {
    name: 'new shard used before late inserts have ended',
    lost: 'after a move of a partition to another ClickHouse shard, events are stored on both shards',
    file: BLOCKS,
    text: 'if (isOther) await this.#waitForInserts();',
    by: '',
    tests: ['services/runtime/src/consumer/shardInUse.test.ts'],
  },
  {
    name: 'writer kept after a wait during an insert',
    lost: 'the events of a block are not stored, because the writer drops the records that it has already planned',
    file: BLOCKS,
    text: 'this.#writer = undefined;\n        return;',
    by: 'return;',
    tests: ['services/runtime/src/consumer/shardInUse.test.ts'],
  },
  {
    name: 'partly inserted block missed',
    lost: 'events stay uncounted if a truncation removed their record and the group lost its offsets',
    file: 'services/projector/src/truncations/storedRecords.ts',
    text: '(await find(tables.rows, { above: from, below, about: below })) ?? newest',
    by: 'newest',
    tests: ['services/projector/src/lostOffsets.int.test.ts'],
  },
  {
    name: 'rows of one replica count as stored',
    lost: 'events are lost with the only replica that had them',
    file: QUORUM_STORE,
    text: 'onQuorum(set, async (store) => {',
    by: 'onAnyReplica(async (store) => {',
    tests: [QUORUM_STORE_TEST],
  },
  {
    name: 'the part of a failed insert counts as stored if the quorum is lowered',
    lost: 'events are lost when ClickHouse removes the part, because Keeper does not list it',
    file: QUORUM_STORE,
    text: 'if (set.quorum < set.fullQuorum) await requireCheckedParts(store, tables);',
    by: '',
    tests: [QUORUM_STORE_TEST],
  },
  {
    name: 'replicas read before they have all parts',
    lost: 'rows that two lagging replicas lack are stored and counted twice',
    file: QUORUM_STORE,
    text: 'await syncTables(store, tables);',
    by: '',
    tests: [QUORUM_STORE_TEST],
  },
  {
    name: 'insert confirmed by one replica',
    lost: 'the events of an insert are lost with the replica that received the insert',
    file: `${CLUSTER}/quorums/shardQuorums.ts`,
    text: 'return Math.min(MAX_QUORUM, nodes);',
    by: 'return Math.min(1, nodes);',
    tests: [CLUSTER_STORE_TEST],
  },
  {
    name: 'quorum restored before a second replica has all rows',
    lost: 'the events that only one replica has are lost with this replica, although the quorum is two',
    file: `${CLUSTER}/quorums/changeQuorum.ts`,
    text: 'if (complete < quorum)',
    by: 'if (complete < 1)',
    tests: [CLUSTER_STORE_TEST],
  },
  {
    name: 'query on a node that lacks rows',
    lost: 'a report misses links to events, because the linker read a node that lags',
    file: CLUSTER_READS,
    text: 'if (await sync(node, tables)) return',
    by: 'return',
    tests: [CLUSTER_STORE_TEST],
  },
  {
    name: 'result of a lagging replica accepted',
    lost: 'a report misses links to events, because ClickHouse read them from a lagging replica',
    file: CLUSTER_READS,
    text: 'return await work(node.store, onCompleteReplicas(node, choice));',
    by: 'return await work(node.store, {});',
    tests: [CLUSTER_STORE_TEST],
  },
  ...PLANTED_IN_BYTES,
  ...PLANTED_TRUNCATIONS,
];
