/**
 * Generates four minutes of events and reports for the linker alone, and counts the expected links. The same seed gives the same
 * workload, except for ids.
 */
import { randomUUID } from 'node:crypto';
import { laneOfSession } from '@questlog/schemas/partition';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import {
  DEFAULT_MAX_SESSION_LINKS,
  DEFAULT_WINDOW_AFTER_MS,
  DEFAULT_WINDOW_BEFORE_MS,
  type ReportLink,
} from '@questlog/schemas/topics/reportLinks';
import { eventId } from '@questlog/schemas/uuid';
import { seeded } from '../../faults/seeded.ts';

export const WORKLOAD = {
  sessions: 5_000,
  spread: 4,
  eventsARecord: 500,
  idsAReport: 5,
  /** Short enough that the log's time of each event matches the event's time, and the first report stays open. */
  spanMs: 4 * 60 * 1000,
} as const;

export interface LinksWorkload {
  /** Events in the order of the log, each with its lane. */
  readonly records: Iterable<{ readonly lane: number; readonly message: EventsAccepted }>;
  readonly reports: readonly ReportLink[];
  readonly expected: { readonly session: number; readonly named: number };
}

const SEED = 20_260_102;
/** Maximum time between an event and its sending. */
const MAX_DELAY_MS = 2_000;

export function linksWorkload(events: number, reports: number, endsAtMs: number): LinksWorkload {
  const plan = planOf(events, endsAtMs - WORKLOAD.spanMs);
  const filed = filedReports(plan, events, reports);
  return {
    records: recordsOf(plan, events),
    reports: filed,
    expected: {
      session: linksBySession(plan, filed),
      named: filed.reduce((sum, { eventIds }) => sum + eventIds.length, 0),
    },
  };
}

interface Plan {
  readonly tenantId: string;
  readonly projectId: string;
  readonly sessions: readonly string[];
  /** Session number of each event. */
  readonly sessionOf: Int32Array;
  readonly delayMs: Int32Array;
  laneOf(event: number): number;
  receivedAt(event: number): number;
  idOf(event: number): string;
}

function planOf(events: number, startsAtMs: number): Plan {
  const random = seeded(SEED);
  const { spread, eventsARecord, spanMs } = WORKLOAD;
  const sessions = Array.from({ length: WORKLOAD.sessions }, () => randomUUID());
  const ofLane = Array.from({ length: spread }, (_, lane) =>
    [...sessions.keys()].filter((i) => laneOfSession(sessions[i] ?? '', spread) === lane),
  );
  const records = Math.ceil(events / eventsARecord);
  const recordOf = (event: number): number => Math.floor(event / eventsARecord);
  const laneOf = (event: number): number => recordOf(event) % spread;
  const receivedAt = (event: number): number => startsAtMs + Math.floor((recordOf(event) / records) * spanMs);
  const tail = Buffer.alloc(8);
  return {
    tenantId: randomUUID(),
    projectId: randomUUID(),
    sessions,
    sessionOf: Int32Array.from({ length: events }, (_, event) => {
      const choices = ofLane[laneOf(event)] ?? [];
      return choices[random.between(0, choices.length - 1)] ?? 0;
    }),
    delayMs: Int32Array.from({ length: events }, () => random.between(0, MAX_DELAY_MS)),
    laneOf,
    receivedAt,
    idOf: (event) => {
      tail.writeUInt32BE(Math.imul(event + 1, 0x9e3779b1) >>> 0, 0);
      tail.writeUInt32BE(event, 4);
      return eventId(receivedAt(event), laneOf(event), tail);
    },
  };
}

/** Files reports. Every second report names a session; the others name events near their own time. */
function filedReports(plan: Plan, events: number, reports: number): ReportLink[] {
  const random = seeded(SEED + 1);
  const around = Math.ceil(events / 50);
  return Array.from({ length: reports }, (_, i): ReportLink => {
    const position = Math.floor(((i + 0.5) / reports) * events);
    const common = {
      kind: 'filed',
      tenantId: plan.tenantId,
      projectId: plan.projectId,
      reportId: randomUUID(),
      receivedAt: plan.receivedAt(position),
      occurredAt: null,
      windowBeforeMs: DEFAULT_WINDOW_BEFORE_MS,
      windowAfterMs: DEFAULT_WINDOW_AFTER_MS,
      maxSessionLinks: DEFAULT_MAX_SESSION_LINKS,
      inlineEventIds: [],
      requestDigest: null,
      isForwarded: false,
      buildId: null,
      content: null,
      filedBy: null,
    } as const;
    if (i % 2 === 0) {
      const sessionId = plan.sessions[random.between(0, plan.sessions.length - 1)] ?? '';
      const sessionLane = laneOfSession(sessionId, WORKLOAD.spread);
      return { ...common, sessionId, sessionLane, eventIds: [] };
    }
    const named = new Set<string>();
    while (named.size < WORKLOAD.idsAReport) {
      const event = position + random.between(-around, around);
      named.add(plan.idOf(Math.min(events - 1, Math.max(0, event))));
    }
    return { ...common, sessionId: null, sessionLane: null, eventIds: [...named] };
  });
}

function linksBySession(plan: Plan, reports: readonly ReportLink[]): number {
  const occurredAt = new Map<string, number[]>(plan.sessions.map((id) => [id, []]));
  for (const [event, session] of plan.sessionOf.entries()) {
    const times = occurredAt.get(plan.sessions[session] ?? '');
    times?.push(plan.receivedAt(event) - (plan.delayMs[event] ?? 0));
  }
  let links = 0;
  for (const { sessionId, receivedAt, windowBeforeMs, windowAfterMs } of reports) {
    for (const atMs of occurredAt.get(sessionId ?? '') ?? []) {
      if (atMs >= receivedAt - windowBeforeMs && atMs <= receivedAt + windowAfterMs) links++;
    }
  }
  return links;
}

function* recordsOf(plan: Plan, events: number): Generator<{ lane: number; message: EventsAccepted }> {
  const random = seeded(SEED + 2);
  const { tenantId, projectId } = plan;
  for (let first = 0; first < events; first += WORKLOAD.eventsARecord) {
    const receivedAt = plan.receivedAt(first);
    const count = Math.min(WORKLOAD.eventsARecord, events - first);
    const message: EventsAccepted = {
      appendId: randomUUID(),
      tenantId,
      projectId,
      receivedAt,
      revision: 'A',
      idempotency: null,
      events: Array.from({ length: count }, (_, i) => ({
        id: plan.idOf(first + i),
        sessionId: plan.sessions[plan.sessionOf[first + i] ?? 0] ?? null,
        buildId: null,
        eventType: 'player_action',
        occurredAt: BigInt(receivedAt - (plan.delayMs[first + i] ?? 0)) * 1000n,
        payload: Buffer.from(
          `{"tick":${random.between(1, 4_000_000)},"zone":"glass_forest","position":"${random.next().toFixed(9)} ` +
            `${random.next().toFixed(9)}","weapon":"weapon_${random.between(1, 80)}","health":${random.between(0, 100)}}`,
        ),
        overQuota: false,
        sequence: null,
      })),
    };
    yield { lane: plan.laneOf(first), message };
  }
}
