/** Test support: handles event requests with a fake log, a fake ClickHouse, and fake caches. */

import type { Clock } from '@questlog/runtime/process/clock';
import { Unavailable } from '@questlog/runtime/process/errors';
import { createMetricsRegistry } from '@questlog/runtime/process/metrics';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { openLimits } from '../limits/limits.ts';
import { ingestMetrics } from '../metrics.ts';
import { sha256 } from './core/keyedIds.ts';
import { KEY, SESSION } from './damagedBodies.testing.ts';
import { EventBatch } from './eventBatch.ts';
import { type IngestDeps, idempotencyOf, ingest } from './ingestEvents.ts';
import { OwnAppends } from './ownAppends.ts';
import { openReplays } from './replays.ts';
import { RandomPool } from './storeEvents.ts';

export const NOW_MS = Date.UTC(2026, 10, 21, 12);
export const OTHER_KEY = KEY.replace('01a1', '01a2');
export const REPORT = 'a report';
const ALWAYS = { fromMicros: 0n, toMicros: 2n ** 62n };
export const event = { sessionId: SESSION, eventType: 'checkpoint é', payload: { level: 3 }, sequence: 7 };
export const SWITCH = { eventType: 'other', buildId: null, playerShare: null, action: 'reject', until: null };

interface ProcessOptions {
  /** True if the requests are read with the scanner that explains invalid requests. */
  readonly isFilled?: boolean;
  readonly isLenient?: boolean;
  readonly revision?: string;
  readonly switches?: readonly unknown[];
  readonly buildIds?: readonly string[];
  readonly hasReport?: boolean;
  readonly limits?: unknown;
}

export function aProcess({
  isFilled = false,
  revision = 'B',
  hasReport = false,
  ...options
}: ProcessOptions = {}) {
  const state = {
    ...{ hasReport, isNamed: false, isBroken: false, hasSessions: true, hasQuota: true, queries: 0 },
    answer: Promise.resolve(),
    appends: [] as object[],
    onReplay: () => {},
  };
  const broker = { isBroken: false };
  const values: Buffer[] = [];
  const log = {
    append: async (_: string, __: number, records: readonly { value: Buffer }[]) => {
      // The caller frees the buffers after the append.
      values.push(...records.map(({ value }) => Buffer.from(value)));
      if (broker.isBroken) throw new Error('no broker');
      return { baseOffset: values.length - records.length };
    },
  };
  const metrics = ingestMetrics(createMetricsRegistry());
  const clock = { ms: NOW_MS, now: () => clock.ms };
  const { quotas, used } = fakeQuotas(state);
  const { sessions, registered, lookups } = fakeSessions(state);
  const deps = {
    ...{ clock, metrics, log, quotas, sessions, ...fakeClickHouse(state, clock) },
    ...{ partitions: 12, random: new RandomPool(), received: [], codec: { schemaId: 0 } },
    limits: openLimits(clock, metrics, () => 1),
    ownAppends: new OwnAppends(() => undefined),
    batch: new EventBatch(),
  } as unknown as IngestDeps;
  if (isFilled) deps.batch.columns.read = () => false;
  const tenant = { id: SESSION, monthlySoftQuota: 4, spread: 8 };
  const { switches = [], limits = null, buildIds } = options;
  const principal = { tenant, project: { id: KEY, switches, limits }, buildIds, revision } as never;
  const send = (sent: unknown, { key = KEY, isLenient = options.isLenient ?? false }: SendOptions = {}) => {
    const body = Buffer.from(JSON.stringify(sent));
    const idempotency = idempotencyOf(key ?? undefined, body);
    return ingest(deps, { principal, body, idempotency, isLenient, isStrict: false, requestId: '' });
  };
  return {
    ...{ send, broker, clock, lookUp: state, metrics, sessions: registered, used, sessionLookups: lookups },
    appended: () =>
      values.map((value) => ({ value, message: eventsAccepted.type.fromBuffer(value.subarray(5)) })),
    remembered: (body: unknown) => {
      const digest = sha256(Buffer.from(JSON.stringify(body)));
      return deps.replays.claim({ tenantId: SESSION, projectId: KEY, key: KEY, digest, indexes: [0] });
    },
  };
}

interface SendOptions {
  /** Idempotency key. Null for a request without a key. */
  readonly key?: string | null | undefined;
  readonly isLenient?: boolean;
}

/** Conditions that a test can change between requests. */
interface State {
  hasReport: boolean;
  isNamed: boolean;
  /** True if ClickHouse is unavailable. */
  isBroken: boolean;
  hasSessions: boolean;
  hasQuota: boolean;
  queries: number;
  answer: Promise<void>;
  appends: readonly object[];
  onReplay: () => void;
}

function fakeQuotas(state: State) {
  let used = 0;
  const ledger = {
    reserve: (events: number) => {
      used += events;
      return used - events;
    },
    confirm: () => {},
    release: (events: number) => {
      used -= events;
    },
  };
  const quotas = {
    ledger: async () => {
      if (state.isBroken) throw new Unavailable('an outage');
      state.hasQuota = true;
      return ledger;
    },
    ledgerIfOpen: () => (state.hasQuota ? ledger : 'unopened'),
  };
  return { quotas, used: () => used };
}

function fakeSessions(state: State) {
  const registered = new Set([SESSION]);
  const session = { lane: 5, buildId: KEY, player: 1 };
  const recent = { ...session, projectId: KEY, sessionId: SESSION, build: Buffer.from(KEY) };
  let lookups = 0;
  const sessions = {
    find: async (_: string, __: string, ids: readonly string[]) => {
      lookups += 1;
      return new Map(ids.filter((id) => registered.has(id)).map((id) => [id, session]));
    },
    peek: (_: string, __: Uint32Array, ___: number, idOf: () => string) =>
      state.hasSessions && registered.has(idOf()) ? { ...recent, sessionId: idOf() } : undefined,
  };
  return { sessions, registered, lookups: () => lookups };
}

function fakeClickHouse(state: State, clock: Clock) {
  const store = {
    query: async (sql: string) => {
      state.queries += 1;
      await state.answer;
      if (state.isBroken) throw new Unavailable('an outage');
      return sql.includes('FROM appends') ? state.appends : [];
    },
  };
  const reports = {
    reportsOf: (_: string, { sessionId }: { sessionId: string | null }) =>
      (state.hasReport && sessionId !== null) || state.isNamed ? [REPORT] : [],
    linkableReports: () => (state.hasReport ? [{ reportId: REPORT, window: ALWAYS }] : []),
    hasNamedEvents: () => state.isNamed,
    hasReports: async () => {
      state.onReplay();
      return false;
    },
  };
  const projection = { caughtUp: async () => undefined };
  return { store, reports, replays: openReplays({ store, clock, projection } as never) };
}
