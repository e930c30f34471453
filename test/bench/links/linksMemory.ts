/**
 * Measures the heap of the linker's state in a process with `--expose-gc`. Reports are decoded from records as in the linker,
 * because other strings need another amount of memory. Prints one line of JSON.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { openReport } from '@questlog/linker/core/decideReports';
import { LINKER_BOUNDS, LinkerState } from '@questlog/linker/core/linkerState';
import { createCodec } from '@questlog/runtime/registry/registry';
import { type EventsAccepted, eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import {
  DEFAULT_MAX_SESSION_LINKS,
  DEFAULT_WINDOW_AFTER_MS,
  DEFAULT_WINDOW_BEFORE_MS,
  type ReportLink,
  reportLinks,
} from '@questlog/schemas/topics/reportLinks';
import { eventId } from '@questlog/schemas/uuid';
import { usedBytes } from '../processFigures.ts';

export interface MemoryFigures {
  readonly bySession: number;
  readonly naming1: number;
  readonly naming500: number;
  readonly spilled: number;
  /** Bytes per event id in reports of 500. */
  readonly eventId: number;
  /** Bytes of one partition at its limit of open reports. */
  readonly atBounds: number;
}

const MANY_IDS = 500;
const EVENTS_BETWEEN = 20;
const TENANT_ID = randomUUID();
const PROJECT_ID = randomUUID();
const registry = { register: async () => 1, schemaById: async () => undefined };
const ofReports = await createCodec(registry, reportLinks);
const ofEvents = await createCodec(registry, eventsAccepted);
/** Record that is decoded between two reports, as in the linker: records that are decoded together share memory. */
const between = ofEvents.encode(someEvents());
const { openReports, openEventIds } = LINKER_BOUNDS;

const bySession = await heapOf(openReports, 0);
const naming1 = await heapOf(openReports, 1);
const naming500 = await heapOf(openEventIds / MANY_IDS, MANY_IDS);
const spilled = await heapOf(openReports, 1, { ...LINKER_BOUNDS, openReports: 0 });
const perId = (naming500 - naming1) / (MANY_IDS - 1);
const figures: MemoryFigures = {
  bySession,
  naming1,
  naming500,
  spilled,
  eventId: perId,
  atBounds: openReports * bySession + openEventIds * perId,
};
process.stdout.write(`${JSON.stringify(figures)}\n`);

/** Returns the bytes per report. @param ids named by each report; 0 for a report of a session */
async function heapOf(reports: number, ids: number, bounds = LINKER_BOUNDS): Promise<number> {
  const before = await usedBytes();
  const state = new LinkerState(0, 1, bounds);
  for (let offset = 0; offset < reports; offset++) {
    await ofEvents.decode(between);
    const record = await ofReports.decode(ofReports.encode(aReport(ids)));
    state.evolve([openReport(state, offset, record, record.receivedAt)]);
    // Releases changelog entries, as after a commit.
    if (offset % 1_000 === 0) state.drain();
  }
  state.drain();
  const bytes = ((await usedBytes()) - before) / reports;
  // Uses the state, so that it is not collected earlier.
  if (state.reports.size !== reports) throw new Error(`${state.reports.size} of ${reports} reports are held`);
  return bytes;
}

function someEvents(): EventsAccepted {
  return {
    appendId: randomUUID(),
    tenantId: TENANT_ID,
    projectId: PROJECT_ID,
    receivedAt: Date.now(),
    revision: 'A',
    idempotency: null,
    events: Array.from({ length: EVENTS_BETWEEN }, () => ({
      id: eventId(Date.now(), 0, randomBytes(8)),
      sessionId: randomUUID(),
      buildId: null,
      eventType: 'player_action',
      occurredAt: BigInt(Date.now()) * 1000n,
      payload: Buffer.from(`{"trace":"${randomBytes(150).toString('hex')}"}`),
      overQuota: false,
      sequence: null,
    })),
  };
}

function aReport(ids: number): ReportLink {
  const now = Date.now();
  return {
    kind: 'filed',
    tenantId: TENANT_ID,
    projectId: PROJECT_ID,
    reportId: randomUUID(),
    receivedAt: now,
    occurredAt: null,
    sessionId: ids === 0 ? randomUUID() : null,
    sessionLane: ids === 0 ? 0 : null,
    windowBeforeMs: DEFAULT_WINDOW_BEFORE_MS,
    windowAfterMs: DEFAULT_WINDOW_AFTER_MS,
    maxSessionLinks: DEFAULT_MAX_SESSION_LINKS,
    inlineEventIds: [],
    eventIds: Array.from({ length: ids }, () => eventId(now, 0, randomBytes(8))),
    requestDigest: randomBytes(32),
    isForwarded: false,
    buildId: null,
    content: null,
    filedBy: null,
  };
}
