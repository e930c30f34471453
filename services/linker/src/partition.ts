/** Runs the linker for one partition. After a failed transaction, the linker restores its state from the changelog. */
import type { DeadLetters } from '@questlog/runtime/consumer/deadLetters';
import { type Batch, type LogRecord, LogTruncated, type OwnedPartition } from '@questlog/runtime/log/log';
import { informEach } from '@questlog/runtime/log/truncation/participants';
import { Fenced, Invalid, Unavailable } from '@questlog/runtime/process/errors';
import { Backoff, pause, retry } from '@questlog/runtime/process/waiting';
import { processInTraces } from '@questlog/runtime/tracing/tracing';
import { faultOf } from '@questlog/schemas/topics/reportLinks';
import {
  DEAD_LETTER_ID_HEADER,
  GROUPS,
  MAX_REPORT_LINK_BYTES,
  TOPICS,
} from '@questlog/schemas/topics/topics';
import { decideEvents } from './core/decideEvents.ts';
import { decideReportLink, removeHidden } from './core/decideReports.ts';
import { type Decision, EMPTY_DECISION } from './core/decision.ts';
import type { LinkerState } from './core/linkerState.ts';
import type { PartitionDeps } from './deps.ts';
import { LookUpRunner } from './lookUps/lookUpRunner.ts';
import { LookUps } from './lookUps/lookUps.ts';
import { type Outbox, openOutbox } from './outbox.ts';

/** Limits of one read. Decoding more records at once would block the event loop and delay responses to game clients. */
const READ_OPTIONS = { maxRecords: 500, maxBytes: 1024 * 1024 } as const;
/** Maximum delay of a commit that contains no links. A longer delay reduces the number of writes to the changelog. */
const COMMIT_EVERY_MS = 200;
const DUE_WAIT_MS = 500;
/** Maximum wait for new records if no lookup is pending. */
const IDLE_WAIT_MS = 30_000;

/** Maximum number of unfinished reports and retractions. Above this number, the linker pauses the topic of report links. */
const MAX_TRACKED = 500_000;
/** Maximum number of event ids in unfinished reports. Above this number, the linker pauses the topic of report links. */
const MAX_TRACKED_EVENT_IDS = 2_000_000;
/** Maximum number of sessions with late events. Above this number, the linker pauses the topic of events. */
const MAX_LATE_SESSIONS = 50_000;

export async function linkPartition(owned: OwnedPartition, deps: PartitionDeps): Promise<void> {
  const { logger, activePartitions: watched } = deps;
  const { partition, signal } = owned;
  const deadLetters = deps.deadLettersFor(signal);
  const backoff = new Backoff();
  const run = async (): Promise<void> => {
    const stopped = new AbortController();
    const runSignal = AbortSignal.any([signal, stopped.signal]);
    try {
      const outbox = await openOutbox(owned, deps);
      const source = new LookUps(outbox, deps, runSignal);
      const lookUps = new LookUpRunner(deps, outbox, source);
      watched.set(partition, { problem: () => lookUps.problem(), open: outbox.state.open });
      void source.loadSessions();
      await runUntilLost({ owned, deps, deadLetters, outbox, lookUps }, () => backoff.reset());
    } finally {
      watched.delete(partition);
      deps.metrics.openReports.remove({ partition });
      deps.metrics.openReportEventIds.remove({ partition });
      deps.metrics.lookUpWait.remove({ partition });
      stopped.abort();
    }
  };
  await retry(run, {
    signal,
    backoff,
    // Retries after a `Fenced` error, because a previous owner that has not noticed the rebalance can fence this process.
    isRetryable: (error) => error instanceof Unavailable || error instanceof Fenced,
    onDelay: (error, backoffMs) => logger.error('linking_delayed', error, { partition, backoffMs }),
  }).catch((error) => {
    if (!signal.aborted) throw error;
  });
}

interface Run {
  readonly owned: OwnedPartition;
  readonly deps: PartitionDeps;
  readonly deadLetters: DeadLetters;
  readonly outbox: Outbox;
  readonly lookUps: LookUpRunner;
}

async function runUntilLost(run: Run, onCommit: () => void): Promise<void> {
  const { owned, deps, outbox, lookUps } = run;
  const { partition } = owned;
  const { cached: visible } = deps.visible;
  let changes = 0;
  try {
    while (!owned.signal.aborted) {
      const batch = await nextBatch(run);
      // Removes reports that were erased after the linker had added them to its state.
      if (changes !== visible.changes) {
        changes = visible.changes;
        const removed = removeHidden(outbox.state, (record) => visible.isVisibleEntity(record));
        outbox.put({ ...EMPTY_DECISION, changes: removed });
        if (removed.length > 0) await outbox.commit();
      }
      const step = async (): Promise<void> => {
        await processBatch(run, batch);
        await lookUps.next();
        deps.metrics.lookUpWait.set({ partition }, lookUps.waitingMs / 1000);
        if (!outbox.isFull && !outbox.hasOutput && outbox.pendingMs() < COMMIT_EVERY_MS) return;
        await outbox.commit();
        onCommit();
      };
      if (batch === undefined) await step();
      else await processInTraces(deps.tracing, { group: GROUPS.link, ...batch }, batch.records, step);
    }
  } finally {
    await outbox.close();
  }
}

async function nextBatch({ owned, deps, outbox, lookUps }: Run): Promise<Batch | undefined> {
  const waitsMs = outbox.pendingMs();
  const { reports, retractions, late } = outbox.state;
  const idleMs = reports.size + retractions.size + late.size === 0 ? IDLE_WAIT_MS : DUE_WAIT_MS;
  const dueInMs = waitsMs === 0 ? idleMs : Math.max(0, COMMIT_EVERY_MS - waitsMs);
  const waitMs = Math.min(dueInMs, lookUps.maxWaitMs);
  const topics = topicsToRead(outbox.state, lookUps.isClosing);
  const [only] = topics;
  if (only === undefined) {
    await pause(waitMs, owned.signal);
    return undefined;
  }
  const options = topics.length === 1 ? { ...READ_OPTIONS, topic: only } : READ_OPTIONS;
  try {
    return await owned.read({ ...options, waitMs });
  } catch (error) {
    if (!(error instanceof LogTruncated)) throw error;
    // Keeps the links to events that the log lost, because ingest had acknowledged these events to clients.
    const { topic, partition, offset, position } = error;
    deps.logger.error('log_cut_short', error, { topic, partition, offset, position });
    informEach([outbox, lookUps]).onTruncated(error);
    return undefined;
  }
}

/** Returns the topics that the linker reads next. Includes the events topic while a `close` lookup waits for events. */
function topicsToRead(
  { reports, retractions, late, trackedEventIds: heldEventIds }: LinkerState,
  isClosing: boolean,
): string[] {
  const isFullOfReports =
    reports.size + retractions.size >= MAX_TRACKED || heldEventIds >= MAX_TRACKED_EVENT_IDS;
  const isFullOfLate = late.size >= MAX_LATE_SESSIONS && !isClosing;
  return [...(isFullOfLate ? [] : [TOPICS.events]), ...(isFullOfReports ? [] : [TOPICS.reportLinks])];
}

async function processBatch(run: Run, batch: Batch | undefined): Promise<void> {
  if (batch === undefined) return;
  const { outbox } = run;
  for (const record of batch.records) {
    outbox.put(await decide(run, batch.topic, record));
    outbox.advance(batch.topic, record.offset + 1, null, batch.leaderEpoch);
    if (outbox.isFull) await outbox.commit();
  }
  outbox.advance(batch.topic, batch.nextOffset, batch.leaderEpoch);
}

/** Returns the decision for one record. Skips an invalid record, for which the projector writes a dead letter. */
async function decide(
  { owned, deps, deadLetters, outbox }: Run,
  topic: string,
  record: LogRecord,
): Promise<Decision> {
  const { codecs, clock, logger } = deps;
  const { offset, value, timestampMs, headers } = record;
  try {
    if (topic === TOPICS.events) {
      const isReplayed = headers[DEAD_LETTER_ID_HEADER] !== undefined;
      const position = { offset, arrivedAtMs: timestampMs, isReplayed };
      const events = deps.visible.cached.visibleEvents(await codecs.events.decode(value));
      return decideEvents(outbox.state, position, events, clock.now());
    }
    const report = await codecs.reports.decode(value);
    if (!deps.visible.cached.isVisibleEntity(report)) return EMPTY_DECISION;
    const fault = faultOf(report);
    if (fault !== undefined) throw new Invalid(fault);
    const decision = decideReportLink(outbox.state, offset, report, clock.now());
    const sizes = decision.notices.map(
      (notice) => notice.record.tenantId.length + codecs.reports.encode(notice.record).length,
    );
    const bytes = Math.max(0, ...sizes);
    if (bytes <= MAX_REPORT_LINK_BYTES) {
      deadLetters.countProcessed(1);
      return decision;
    }
    // The producer compressed the original record to fit into the topic. The linker's uncompressed copy is too large.
    const cause = new Invalid(
      `the record has ${bytes} bytes uncompressed, above the limit of ${MAX_REPORT_LINK_BYTES} of ${topic}`,
    );
    await deadLetters.send({ topic, partition: owned.partition }, record, cause, true);
    return EMPTY_DECISION;
  } catch (error) {
    if (!(error instanceof Invalid)) throw error;
    logger.warn('record_not_linked', { topic, partition: owned.partition, offset });
    return EMPTY_DECISION;
  }
}
