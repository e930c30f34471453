/**
 * Commits the results, the state, and the offsets of one partition in one transaction. The changelog contains a copy of the
 * offsets, because a consumer group can lose its offsets.
 */

import type { Log, NewRecord, OwnedPartition, TransactionalProducer } from '@questlog/runtime/log/log';
import { positionsOf } from '@questlog/runtime/log/projection/projection';
import type { TruncatedRange, TruncationParticipant } from '@questlog/runtime/log/truncation/participants';
import { Unavailable } from '@questlog/runtime/process/errors';
import { type LinkerPosition, NO_EPOCHS, POSITION_KEY } from '@questlog/schemas/topics/linkerState';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import type { Decision } from './core/decision.ts';
import { LinkerState, positionEntry } from './core/linkerState.ts';
import type { CommittedPosition } from './core/requiredOffsets.ts';
import type { PartitionDeps } from './deps.ts';

const MAX_TRANSACTION_BYTES = 8 * 1024 * 1024;

/**
 * Opens the partition's transactional producer, which fences the previous owner. Then reads the state. In this order, the
 * previous owner cannot commit a change after the read.
 * @throws Unavailable if the log does not answer
 */
export async function openOutbox(owned: OwnedPartition, deps: PartitionDeps): Promise<Outbox> {
  const producer = await deps.log.transactionalProducer(`${GROUPS.link}-${owned.partition}`);
  try {
    return await restoreOutbox(owned, deps, producer);
  } catch (error) {
    // Closes the producer after an error. Otherwise, each retry during an outage would leave open connections.
    await producer.close();
    throw error;
  }
}

async function restoreOutbox(
  owned: OwnedPartition,
  deps: PartitionDeps,
  producer: TransactionalProducer,
): Promise<Outbox> {
  const { log } = deps;
  const { partition } = owned;
  const { state, position } = await deps.queueRestore(() => restoredState(deps, owned));
  const known = position ?? (await groupPosition(log, partition));
  const linksEnd = await log.endOffset(TOPICS.linkedEvents, partition);
  const outbox = new Outbox(owned, deps, producer, state, { known, linksEnd });
  const positions = [
    [TOPICS.events, known.events, known.eventsEpoch, known.eventsUpToEpoch],
    [TOPICS.reportLinks, known.reportLinks, known.reportLinksEpoch, known.reportLinksUpToEpoch],
  ] as const;
  for (const [topic, offset, leaderEpoch, upToEpoch] of positions) {
    owned.seek(topic, offset, leaderEpoch ?? undefined, upToEpoch ?? undefined);
    if (offset === (owned.committed(topic)?.offset ?? 0)) continue;
    // Commits the restored position immediately. Otherwise, the consumer group would show a lag until the next record. Kafka
    // rejects a position after the end of the log, so such a position is not committed.
    const end = await log.endOffset(topic, partition);
    if (offset <= end) outbox.advance(topic, offset, leaderEpoch, upToEpoch);
  }
  return outbox;
}

/**
 * Returns the committed offsets of the consumer group. They are used if the changelog contains no offsets, for example after an
 * upgrade.
 */
async function groupPosition(log: Log, partition: number): Promise<LinkerPosition> {
  const of = async (topic: string): Promise<number> =>
    (await positionsOf(log, GROUPS.link, topic, (p) => p === partition))[partition] ?? 0;
  const [events, reportLinks] = [await of(TOPICS.events), await of(TOPICS.reportLinks)];
  return { events, reportLinks, ...NO_EPOCHS };
}

export class Outbox implements TruncationParticipant {
  readonly state: LinkerState;
  readonly #owned: OwnedPartition;
  readonly #deps: PartitionDeps;
  readonly #producer: TransactionalProducer;
  readonly #positions = new Map<string, number>();
  #nextPosition: LinkerPosition;
  #committed: CommittedPosition;
  #links: NewRecord[] = [];
  #notices: { partition: number; record: NewRecord }[] = [];
  #bytes = 0;
  #pendingSinceMs: number | undefined;
  #isRewound = false;

  constructor(
    owned: OwnedPartition,
    deps: PartitionDeps,
    producer: TransactionalProducer,
    state: LinkerState,
    { known, linksEnd }: { known: LinkerPosition; linksEnd: number },
  ) {
    this.state = state;
    this.#owned = owned;
    this.#deps = deps;
    this.#producer = producer;
    this.#nextPosition = known;
    this.#committed = { ...known, links: linksEnd };
  }

  get hasOutput(): boolean {
    return this.#links.length > 0 || this.#notices.length > 0;
  }

  get isFull(): boolean {
    return this.#bytes >= MAX_TRANSACTION_BYTES;
  }

  get committed(): CommittedPosition {
    return this.#committed;
  }

  pendingMs(): number {
    return this.#pendingSinceMs === undefined ? 0 : Math.max(1, performance.now() - this.#pendingSinceMs);
  }

  put({ links, notices, changes }: Decision): void {
    const { codecs, metrics } = this.#deps;
    this.state.evolve(changes);
    for (const link of links) {
      this.state.countLink(link);
      this.#links.push(this.#addSize({ key: link.tenantId, value: codecs.links.encode(link) }));
      metrics.linkChanges.inc({ kind: link.kind, source: link.source });
    }
    for (const { partition, record } of notices) {
      const value = codecs.reports.encode(record);
      this.#notices.push({ partition, record: this.#addSize({ key: record.tenantId, value }) });
      if (record.kind === 'unresolved') metrics.unresolvedLinks.inc(record.eventIds.length);
    }
  }

  /**
   * Sets the linker's position in a topic. All records before `offset` have been processed.
   * @param leaderEpoch the epoch of the record before `offset`, or null if the epoch is unknown
   */
  advance(
    topic: string,
    offset: number,
    leaderEpoch: number | null = null,
    upToEpoch: number | null = null,
  ): void {
    this.#pendingSinceMs ??= performance.now();
    this.#positions.set(topic, offset);
    this.#nextPosition =
      topic === TOPICS.events
        ? { ...this.#nextPosition, events: offset, eventsEpoch: leaderEpoch, eventsUpToEpoch: upToEpoch }
        : {
            ...this.#nextPosition,
            reportLinks: offset,
            reportLinksEpoch: leaderEpoch,
            reportLinksUpToEpoch: upToEpoch,
          };
  }

  /**
   * Moves the position back in a truncated topic. Keeps the highest known epoch, because a comparison with this epoch detects
   * the next truncation.
   */
  onTruncated({ topic, offset }: TruncatedRange): void {
    const { eventsEpoch, eventsUpToEpoch, reportLinksEpoch, reportLinksUpToEpoch } = this.#nextPosition;
    const upToEpoch =
      topic === TOPICS.events ? (eventsEpoch ?? eventsUpToEpoch) : (reportLinksEpoch ?? reportLinksUpToEpoch);
    this.advance(topic, offset, null, upToEpoch);
    this.#isRewound = true;
    if (topic === TOPICS.events) this.state.wasTruncated = true;
  }

  async commit(): Promise<void> {
    const appends = this.#takeAppends();
    const next = this.#nextPosition;
    const linked = this.#links.length;
    const commits = [...this.#positions].map(([topic, offset]) => {
      return { owned: this.#owned, topic, committed: { offset, metadata: '' } };
    });
    const [first] = await this.#producer.commit({ appends, commits });
    const links = linked > 0 && first !== undefined ? first.baseOffset + linked : this.#committed.links;
    this.#committed = { ...next, links };
    this.#links = [];
    this.#notices = [];
    this.#bytes = 0;
    this.#pendingSinceMs = undefined;
    this.#isRewound = false;
    this.#updateMetrics();
  }

  close(): Promise<void> {
    const { openReports, openReportEventIds } = this.#deps.metrics;
    for (const gauge of [openReports, openReportEventIds]) gauge.remove({ partition: this.state.partition });
    return this.#producer.close();
  }

  /** Returns the records of the transaction. The links come first, because `commit` needs the offset of the first link. */
  #takeAppends(): { topic: string; partition: number; records: readonly NewRecord[] }[] {
    const { partition } = this.#owned;
    const { state } = this.#deps.codecs;
    const changelog = this.state.drain().map(({ key, entry }) => {
      return { key, value: entry === null ? null : state.encode(entry) };
    });
    const byPartition = Map.groupBy(this.#notices, (notice) => notice.partition);
    const outputs = [
      { topic: TOPICS.linkedEvents, partition, records: this.#links },
      ...[...byPartition].map(([to, notices]) => {
        return { topic: TOPICS.reportLinks, partition: to, records: notices.map(({ record }) => record) };
      }),
    ].filter(({ records }) => records.length > 0);
    // Writes nothing if only the offsets have changed. A new owner then reads the same records again, which changes nothing.
    // After a truncation, always writes the offsets, because the stored offsets are too high.
    if (outputs.length === 0 && changelog.length === 0 && !this.#isRewound) return [];
    changelog.push({ key: POSITION_KEY, value: state.encode(positionEntry(this.#nextPosition)) });
    return [...outputs, { topic: TOPICS.linkerState, partition, records: changelog }];
  }

  #addSize(record: NewRecord): NewRecord {
    this.#bytes += record.value?.length ?? 0;
    return record;
  }

  #updateMetrics(): void {
    const { metrics } = this.#deps;
    const { partition, open } = this.state;
    metrics.openReports.set({ partition }, open.reports);
    metrics.openReportEventIds.set({ partition }, open.eventIds);
  }
}

const STALLED_AFTER_MS = 10_000;

/** Restores the state from the latest changelog entry of each key. Skips older entries that Kafka has not compacted yet. */
async function restoredState(
  deps: PartitionDeps,
  { partition, signal }: OwnedPartition,
): Promise<{ state: LinkerState; position: LinkerPosition | undefined }> {
  const { log, codecs, partitions, bounds, sessions } = deps;
  const latest = new Map<string, Buffer>();
  const end = await log.endOffset(TOPICS.linkerState, partition);
  const stalled = new AbortController();
  const stall = setTimeout(() => {
    stalled.abort(new Unavailable(`no records arrive from ${TOPICS.linkerState}/${partition}`));
  }, STALLED_AFTER_MS).unref();
  const tail = await log.tail({
    topic: TOPICS.linkerState,
    from: 'earliest',
    partitions: [partition],
    onTruncated: () => stalled.abort(new Unavailable('the changelog was truncated while it was read')),
    onBatch: ({ records }) => {
      stall.refresh();
      for (const { key, value } of records) {
        if (key === null) continue;
        latest.delete(key);
        // Copies the value, because a slice of the batch would keep the whole batch in memory.
        if (value !== null) latest.set(key, Buffer.from(value));
      }
    },
  });
  try {
    const ends = tail.positions().map((_, p) => (p === partition ? end : 0));
    await tail.waitForOffsets(ends, AbortSignal.any([signal, stalled.signal]));
  } finally {
    clearTimeout(stall);
    await tail.close();
  }
  const state = new LinkerState(partition, partitions, bounds, sessions.filter);
  let position: LinkerPosition | undefined;
  for (const [key, value] of latest) {
    const entry = await codecs.state.decode(value);
    state.restore(key, entry);
    if (key === POSITION_KEY) position = entry.position ?? undefined;
  }
  return { state, position };
}
