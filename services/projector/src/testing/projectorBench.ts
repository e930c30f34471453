/** Test bench of the projector. It has an embedded log in a new folder and empty tables, and can run projectors on them. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { emptyTables } from '@questlog/runtime/clickhouse/chdb/testing/sharedEngine';
import type { Store, StoreOptions } from '@questlog/runtime/clickhouse/store';
import { until } from '@questlog/runtime/log/contract/harness';
import { openDatabase } from '@questlog/runtime/log/embedded/database';
import { type EmbeddedExtras, embeddedLogOn } from '@questlog/runtime/log/embedded/embeddedLog';
import type { Consumer, Headers, Log } from '@questlog/runtime/log/log';
import { withMethods } from '@questlog/runtime/log/testing/alteredLog';
import { systemClock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { createHealth, type Health } from '@questlog/runtime/process/health';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec } from '@questlog/runtime/registry/registry';
import { ALL_VISIBLE } from '@questlog/schemas/erased';
import type { MessageContract } from '@questlog/schemas/topics/contract';
import { type DeadLetter, deadLetter } from '@questlog/schemas/topics/deadLetter';
import { APPEND_ID_HEADER, GROUPS, TOPICS, topicDefinitions } from '@questlog/schemas/topics/topics';
import type { VisibleData } from '@questlog/schemas/visibility';
import { type ProjectorMetrics, projectorMetrics } from '../metrics.ts';
import { type Projector, startProjector } from '../projector.ts';

export interface Bench {
  readonly log: Log & EmbeddedExtras;
  readonly store: Store;
  /** Options with which a test can open the store. */
  readonly access: StoreOptions;
  /** Health of all projectors of the bench. */
  readonly health: Health;
  readonly metrics: ProjectorMetrics;
  append<T>(
    topic: string,
    contract: MessageContract<T>,
    messages: readonly T[],
    partition?: number,
    headers?: Headers,
  ): Promise<void>;
  start(store: Store, log?: Log, visible?: VisibleData): Promise<Projector>;
  /** Runs a projector on the topics that have or had records, until no topic has lag. Rejects if the projector fails. */
  projectAll(store: Store, visible?: VisibleData): Promise<void>;
  /**
   * Deletes all commits of the projector's groups.
   * @param to an offset to which the commits of the events group are reset instead
   */
  loseOffsets(to?: number): void;
  /** Closes the log, runs `change` on its folder, and opens the log again. */
  reopenLog(change: (directory: string) => void): Promise<void>;
  deadLetters(): Promise<DeadLetter[]>;
  close(): Promise<void>;
}

/**
 * Opens a bench.
 * @param partitions the number of partitions. It is 1 by default, so that the appended records are one sequence.
 * @param openTables opens empty tables
 */
export async function openBench(
  partitions = 1,
  openTables: () => Promise<{ store: Store; access: StoreOptions }> = emptyTables,
): Promise<Bench> {
  const directory = mkdtempSync(join(tmpdir(), 'projector-'));
  let { database, log } = openLogIn(directory);
  const shared = await openTables();
  // An insert has always ended when a test starts a projector, because no test leaves an insert running.
  const store = { ...shared.store, insertsEndWithinMs: 0 };
  await log.ensureTopics(topicDefinitions(partitions));
  let registry = await openLogRegistry(log);
  const health = createHealth();
  const metrics = projectorMetrics(createMetricsRegistry());

  const start: Bench['start'] = (on, from = log, visible = ALL_VISIBLE) =>
    startProjector({
      log: from,
      store: on,
      registry,
      clock: systemClock,
      logger: silentLogger,
      metrics,
      health,
      visible,
      flushIntervalMs: 0,
    });
  const projectAll: Bench['projectAll'] = async (on, visible) => {
    const projector = await start(on, consumingOnly(log, await topicsWhere(log, isUsed)), visible);
    try {
      const caughtUp = until(async () => (await topicsWhere(log, hasLag)).length === 0);
      await Promise.race([caughtUp, projector.failed]);
    } finally {
      await projector.stop();
    }
  };
  return {
    get log() {
      return log;
    },
    store,
    access: shared.access,
    health,
    metrics,
    start,
    projectAll,
    reopenLog: async (change) => {
      await log.close();
      change(directory);
      ({ database, log } = openLogIn(directory));
      registry = await openLogRegistry(log);
    },
    append: async (topic, contract, messages, partition = 0, headers = {}) => {
      const codec = await createCodec(registry, contract);
      await log.append(
        topic,
        partition,
        messages.map((message) => ({
          ...{ key: null, value: codec.encode(message) },
          headers: { ...headersOf(message), ...headers },
        })),
      );
    },
    loseOffsets: (to) =>
      database.sqlite.exec(
        to === undefined
          ? `DELETE FROM commits WHERE consumer_group LIKE 'questlog-project-%'`
          : `UPDATE commits SET next_offset = ${to}, metadata = '' WHERE consumer_group = '${GROUPS.projectEvents}'`,
      ),
    deadLetters: () => readDeadLetters(log, registry),
    close: async () => {
      await log.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

function openLogIn(directory: string) {
  const database = openDatabase(directory);
  return { database, log: embeddedLogOn(database, { directory, clock: systemClock }) };
}

function headersOf(message: unknown): Headers {
  const appendId: unknown = Object(message)['appendId'];
  return typeof appendId === 'string' ? { [APPEND_ID_HEADER]: appendId } : {};
}

/** Deletes all events from the log of a bench, as Kafka deletes records that are older than its retention. */
export async function expireEvents(bench: Bench): Promise<void> {
  await bench.reopenLog((directory) => {
    const database = openDatabase(directory);
    database.sqlite.exec(`UPDATE partitions SET start_offset = end_offset WHERE topic = '${TOPICS.events}'`);
    database.close();
  });
}

/** Returns a store that fails before or after the nth insert into a table. */
export function failing(
  store: Store,
  table: string,
  nth: number,
  when: 'before' | 'after',
  fault: () => Error,
): Store {
  let seen = 0;
  const withFault = ({ insert, forPartition, ...others }: Store): Store => ({
    ...others,
    ...(forPartition && { forPartition: (...of) => withFault(forPartition(...of)) }),
    insert: async (rows) => {
      const isIt = rows.table === table && ++seen === nth;
      if (isIt && when === 'before') throw fault();
      await insert(rows);
      if (isIt && when === 'after') throw fault();
    },
  });
  return withFault(store);
}

/** Copies the rows of tables. Returns a function that restores the tables from the copies, which then no longer exist. */
export async function backUp({ command }: Store, tables: readonly string[]): Promise<() => Promise<void>> {
  for (const table of tables) {
    await command(`CREATE TABLE ${table}_then AS ${table}`);
    await command(`INSERT INTO ${table}_then SELECT * FROM ${table}`);
  }
  return async () => {
    for (const table of tables) {
      await command(`EXCHANGE TABLES ${table} AND ${table}_then`);
      await command(`DROP TABLE ${table}_then`);
    }
  };
}

export const crash = (): Error => new Error('crash');
export const lost = (): Error => new Unavailable('the answer was lost');

/** Returns a log that has consumers only for the given topics. Consumers of other topics are idle. */
function consumingOnly(log: Log, topics: readonly string[]): Log {
  return withMethods(log, {
    consume: async (options) =>
      options.topics.some((topic) => topics.includes(topic)) ? await log.consume(options) : IDLE,
  });
}

async function topicsWhere(
  log: Log,
  isWanted: (end: number, committed: number) => boolean,
): Promise<string[]> {
  const topics: string[] = [];
  for (const [group, topic] of PROJECTIONS) {
    const [ends, committed] = [await log.endOffsets(topic), await log.committed(group, topic)];
    if (ends.some((end, partition) => isWanted(end, committed[partition]?.offset ?? 0))) topics.push(topic);
  }
  return topics;
}

/**
 * True if the topic has or had records. A bench projects only these topics, because a projector reads the tables of its topics
 * at the start. This takes most of the CPU time of a test with few records.
 */
function isUsed(end: number, committed: number): boolean {
  return end > 0 || committed > 0;
}

function hasLag(end: number, committed: number): boolean {
  return end !== committed;
}

const PROJECTIONS = [
  [GROUPS.projectEvents, TOPICS.events],
  [GROUPS.projectSessions, TOPICS.sessions],
  [GROUPS.projectReports, TOPICS.reportLinks],
  [GROUPS.projectLinks, TOPICS.linkedEvents],
  [GROUPS.projectAudit, TOPICS.audit],
] as const;

const IDLE: Consumer = {
  assigned: () => [],
  activity: () => '',
  failed: new Promise(() => {}),
  stop: async () => {},
};

async function readDeadLetters(log: Log, registry: Parameters<typeof createCodec>[0]): Promise<DeadLetter[]> {
  const codec = await createCodec(registry, deadLetter);
  const letters: DeadLetter[] = [];
  const tail = await log.tail({
    topic: TOPICS.deadLetters,
    from: 'earliest',
    onBatch: async (batch) => {
      for (const record of batch.records) letters.push(await codec.decode(record.value));
    },
  });
  await tail.waitForOffsets(await log.endOffsets(TOPICS.deadLetters));
  await tail.close();
  return letters;
}
