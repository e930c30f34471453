/** Test support: bug reports on a real log with a simulated ClickHouse. The test can make the log unavailable. */
import { randomUUID } from 'node:crypto';
import { TableIncomplete } from '@questlog/runtime/clickhouse/restored/restoredTable';
import type { Store } from '@questlog/runtime/clickhouse/store';
import { type Directory, emptyDirectory, type Principal } from '@questlog/runtime/directory/directory';
import { aLog } from '@questlog/runtime/log/embedded/testing/testLog';
import type { Log } from '@questlog/runtime/log/log';
import { READ_TIMEOUT_MS } from '@questlog/runtime/log/projection/projection';
import { withMethods } from '@questlog/runtime/log/testing/alteredLog';
import { Unavailable } from '@questlog/runtime/process/errors';
import { KeyedMutex } from '@questlog/runtime/process/keyedMutex';
import { silentLogger } from '@questlog/runtime/process/logger';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { openLogRegistry } from '@questlog/runtime/registry/logRegistry';
import { createCodec, type SchemaRegistry } from '@questlog/runtime/registry/registry';
import { aSession } from '@questlog/schemas/fixtures/builders';
import type { EventRow } from '@questlog/schemas/tables/events';
import type { MessageContract } from '@questlog/schemas/topics/contract';
import { type EventsAccepted, eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import {
  DEFAULT_MAX_SESSION_LINKS,
  type ReportLink,
  reportLinks,
} from '@questlog/schemas/topics/reportLinks';
import type { SessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { topicDefinitions } from '@questlog/schemas/topics/topics';
import { onTestFinished } from 'vitest';
import { isVisibleIn, visibleReports, visibleSessions } from '../entityCache/openCaches.ts';
import { openReportCache } from '../entityCache/reportCache.ts';
import { cachedSession, type SessionCache } from '../entityCache/sessionCache.ts';
import { OwnAppends } from '../events/ownAppends.ts';
import { RandomPool } from '../events/storeEvents.ts';
import { openLimits } from '../limits/limits.ts';
import { ingestMetrics } from '../metrics.ts';
import type { ReportDeps } from './createReport.ts';

export interface ReportBench {
  readonly principal: Principal;
  /** Directory that contains the erased data. */
  readonly directory: Directory;
  /** Inline events. Each of the four lanes has one event. */
  readonly inline: readonly object[];
  /** True if appends to the topic fail at the moment. */
  isDown: (topic: string) => boolean;
  /** True if ClickHouse's table of reports was restored and lacks rows. */
  isRestored: boolean;
  /** Ids of the events that are in ClickHouse. */
  projected: readonly string[];
  /** Ids of inline events with an unresolved link in ClickHouse. The ids apply to all reports. */
  unresolved: readonly string[];
  /** Time of all processes in milliseconds since the epoch. */
  nowMs: number;
  /**
   * Starts a process that follows the log.
   * @param mayRead function that is awaited before each read.
   * @param readTimeoutMs maximum time that a request waits for unread records.
   */
  start(mayRead?: () => Promise<void>, readTimeoutMs?: number): Promise<ReportDeps>;
  reports(): Promise<ReportLink[]>;
  events(): Promise<EventsAccepted[]>;
}

const LANES = [0, 1, 2, 3];
const NOON_MS = Date.UTC(2026, 10, 21, 12);

export async function aReportBench(): Promise<ReportBench> {
  const clock = { now: () => bench.nowMs };
  const log = await aLog({ clock: { now: () => NOON_MS } });
  await log.ensureTopics(topicDefinitions(LANES.length));
  const registry = await openLogRegistry(log);
  const sessions = LANES.map((lane) => aSession({ lane }));
  const principal = aPrincipal();
  const directory = emptyDirectory();
  directory.projects.set(principal.project.id, principal.project);
  const bench: ReportBench = {
    principal,
    directory,
    inline: sessions.map(({ sessionId }, n) => ({ sessionId, eventType: 'x', payload: { n } })),
    isDown: () => false,
    isRestored: false,
    projected: [],
    unresolved: [],
    nowMs: NOON_MS,
    start: async (mayRead = async () => {}, readTimeoutMs = READ_TIMEOUT_MS) => {
      const store = storeOf(bench);
      const projection = {
        caughtUp: async () => {},
        projected: async () => LANES.map(() => 0),
        lastRecords: async () => [],
      };
      const failing = withMethods(log, {
        append: async (topic, partition, records) => {
          if (bench.isDown(topic)) throw new Unavailable('the log takes nothing');
          return await log.append(topic, partition, records);
        },
        tail: (options) =>
          log.tail({ ...options, onBatch: (batch) => mayRead().then(() => options.onBatch(batch)) }),
      });
      const reports = await openReportCache({
        ...{ log: failing, store, registry, projection, logger: silentLogger, clock, readTimeoutMs },
        isVisible: isVisibleIn(bench.directory),
        table: {
          errorIfIncomplete: async () =>
            bench.isRestored ? new TableIncomplete('rows are missing', { retryAfterS: 10 }) : undefined,
        },
      });
      onTestFinished(() => reports.close());
      const metrics = ingestMetrics(createMetricsRegistry());
      const directory = { current: bench.directory, caughtUp: async () => {} };
      return {
        ...{
          log: failing,
          store,
          reports: visibleReports(reports, directory),
          projection,
          clock,
          metrics,
        },
        codec: await createCodec(registry, eventsAccepted),
        checkAttachments: async () => [],
        received: [],
        limits: openLimits(clock, metrics, () => 1),
        quotas: { ledger: async () => undefined, ledgerIfOpen: () => undefined },
        ownAppends: new OwnAppends(() => {}),
        random: new RandomPool(),
        sessions: visibleSessions(sessionsOf(sessions), directory),
        partitions: LANES.length,
        perReport: new KeyedMutex(),
        maxSessionLinks: DEFAULT_MAX_SESSION_LINKS,
      };
    },
    reports: () => recordsOf(log, registry, reportLinks),
    events: () => recordsOf(log, registry, eventsAccepted),
  };
  return bench;
}

function sessionsOf(sessions: readonly SessionRegistered[]): SessionCache {
  const known = (ids: readonly string[]) => sessions.filter(({ sessionId }) => ids.includes(sessionId));
  return {
    find: async (_, __, ids) => new Map(known(ids).map((one) => [one.sessionId, cachedSession(one)])),
    register: () => Promise.reject(new Error('no session is registered here')),
    failed: new Promise<never>(() => {}),
    canExist: () => true,
    hasHidden: async () => false,
    errorIfIncomplete: async () => undefined,
    peek: () => undefined,
    close: async () => {},
  };
}

function aPrincipal(): Principal {
  const [tenantId, projectId] = [randomUUID(), randomUUID()];
  return {
    tenant: { id: tenantId, name: 'T', monthlySoftQuota: null, spread: LANES.length, createdAt: 1 },
    project: { id: projectId, tenantId, name: 'P', revision: null, createdAt: 1 },
    revision: 'B',
    scopes: ['reports:write'],
    tokenId: randomUUID(),
  };
}

/** Returns a ClickHouse that answers queries for events and unresolved links. It stores no reports. */
function storeOf(bench: Pick<ReportBench, 'projected' | 'unresolved'>): Store {
  const refuse = (): Promise<never> => Promise.reject(new Error('not asked here'));
  return {
    database: 'questlog',
    query: async <Row>(sql: string, params: Readonly<Record<string, unknown>> = {}): Promise<Row[]> => {
      if (/FROM report_links\b/.test(sql)) {
        const links = bench.unresolved.map((id) => ({ eventId: id, state: 'unresolved', source: 'inline' }));
        return JSON.parse(JSON.stringify(links));
      }
      const ids: unknown = params['ids'];
      if (!/FROM events\b/.test(sql) || !Array.isArray(ids)) return [];
      const rows = bench.projected
        .filter((id) => ids.includes(id))
        .map((id): EventRow => ({ ...STORED, id }));
      return JSON.parse(JSON.stringify(rows));
    },
    queryRaw: refuse,
    stream: refuse,
    command: refuse,
    insert: refuse,
    insertsEndWithinMs: 0,
    ping: async () => true,
    close: async () => {},
  };
}

const STORED = {
  ...{ sessionId: null, buildId: null, eventType: 'stored', occurredAt: '1', payload: '{}' },
  ...{ overQuota: false, sequence: null },
};

async function recordsOf<T>(log: Log, registry: SchemaRegistry, contract: MessageContract<T>): Promise<T[]> {
  const codec = await createCodec(registry, contract);
  const found: T[] = [];
  const tail = await log.tail({
    topic: contract.topic,
    from: 'earliest',
    onBatch: async ({ records }) => {
      for (const { value } of records) found.push(await codec.decode(value));
    },
  });
  await tail.waitForOffsets(await log.endOffsets(contract.topic));
  await tail.close();
  return found;
}
