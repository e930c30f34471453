/**
 * One run of the linker on a modelled log. A seed chooses games, reports, retries, retractions, crashes, and the clock. At the
 * end, everything is delivered and the links are compared with the brute-force join.
 */
import { LINKER_BOUNDS, type LinkerBounds } from '@questlog/linker/core/linkerState';
import { Topology } from '@questlog/linker/testing/topology';
import { anEvent, aReportLink } from '@questlog/schemas/fixtures/builders';
import { partitionOf } from '@questlog/schemas/partition';
import { windowOf } from '@questlog/schemas/reportWindow';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { DEFAULT_MAX_SESSION_LINKS, type ReportLink } from '@questlog/schemas/topics/reportLinks';
import { Dice } from './dice.ts';
import { findingsOn } from './linkOracle.ts';
import { disorderOf } from './linkOrder.ts';
import { retryUnresolved } from './retryUnresolved.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const LAPSES_MS = [SECOND_MS, MINUTE_MS, 6 * MINUTE_MS, 20 * MINUTE_MS];

const WIDE_BOUNDS = { ...LINKER_BOUNDS, sessionsWithReports: 1_000 };
/** Small limits that a run reaches. */
const SMALL_BOUNDS: LinkerBounds = {
  openReports: 2,
  openEventIds: 5,
  appends: 5,
  deferredLinkBytes: 1_000,
  sessionsWithReports: 2,
};

interface Session {
  readonly tenantId: string;
  readonly projectId: string;
  readonly id: string;
  readonly lane: number;
}

export interface Outcome {
  readonly findings: readonly string[];
  readonly links: number;
  readonly crashes: number;
}

export function simulateLinks(seed: number): Outcome {
  return new LinkSimulation(seed).run();
}

class LinkSimulation {
  readonly #dice: Dice;
  readonly #topology: Topology;
  readonly #sessions: Session[] = [];
  readonly #arrivedAt = new Map<string, number>();
  readonly #appended: { partition: number; message: EventsAccepted }[] = [];
  readonly #filed: { record: ReportLink; partition: number | undefined }[] = [];
  /** Ids of sent and future events, because a report can name an event before it arrives. */
  readonly #eventIds: { id: string; session: Session; isSent: boolean }[] = [];
  readonly #projectorPace: number;
  #crashes = 0;

  constructor(seed: number) {
    this.#dice = new Dice(seed);
    this.#projectorPace = this.#dice.from([12, 3]);
    const partitions = this.#dice.from([1, 2, 3, 4]);
    this.#topology = new Topology(partitions, this.#dice.chance(0.5) ? SMALL_BOUNDS : WIDE_BOUNDS);
    for (let t = 0; t < 2; t++) this.#addTenant(this.#dice.from([1, 1, 3]));
  }

  run(): Outcome {
    const steps = this.#dice.between(30, 250);
    for (let i = 0; i < steps; i++) this.#step();
    this.#deliver(11 * SECOND_MS);
    const atOnce = this.#findings(false);
    this.#deliver(50 * HOUR_MS);
    // Every report is closed, so further events are late.
    for (let i = 0; i < steps / 4; i++) this.#step();
    for (let i = 0; i < 2; i++) this.#deliver(50 * HOUR_MS);
    retryUnresolved(this.#topology);
    for (let i = 0; i < 2; i++) this.#deliver(50 * HOUR_MS);
    const links = this.#topology.topics.links.flat().length;
    return { findings: [...atOnce, ...this.#findings(true)], links, crashes: this.#crashes };
  }

  #findings(isOver: boolean): string[] {
    const { topics, lanes } = this.#topology;
    const sent = { topics, lanes, arrivedAt: this.#arrivedAt, isOver };
    return [...findingsOn(sent), ...disorderOf(topics)];
  }

  #addTenant(spread: number): void {
    const tenantId = this.#dice.uuid();
    for (let p = 0; p < 2; p++) {
      const projectId = this.#dice.uuid();
      for (let s = 0; s < 2; s++) {
        const [id, lane] = [this.#dice.uuid(), this.#dice.between(0, spread - 1)];
        const session = { tenantId, projectId, id, lane };
        this.#sessions.push(session);
        this.#topology.lanes.set(`${projectId}/${session.id}`, session.lane);
      }
    }
  }

  #step(): void {
    const partition = this.#dice.between(0, this.#topology.partitions - 1);
    const dies = this.#dice.chance(0.1);
    if (dies) this.#crashes++;
    this.#dice.oneOf([
      [18, () => this.#sendEvents()],
      [4, () => this.#repeatAppend()],
      [10, () => this.#fileReport()],
      [3, () => this.#fileAgain()],
      [4, () => this.#retract()],
      [2, () => retryUnresolved(this.#topology)],
      [20, () => this.#topology.consume(partition, 'events')],
      [20, () => this.#topology.consume(partition, 'reports')],
      [20, () => this.#topology.commit(partition)],
      [30, () => this.#topology.lookUp(partition, this.#dice.from([1, 3, 1_000]), dies)],
      [15, () => this.#topology.suspend(partition)],
      [this.#projectorPace, () => this.#topology.project('events', partition, this.#dice.between(1, 4))],
      [this.#projectorPace, () => this.#topology.project('reports', partition, this.#dice.between(1, 4))],
      [this.#projectorPace, () => this.#topology.project('links', partition, this.#dice.between(1, 9))],
      [8, () => this.#topology.crash(partition)],
      [2, () => this.#topology.settle()],
      [10, () => this.#topology.advance(this.#dice.from(LAPSES_MS))],
    ]);
  }

  #sendEvents(): void {
    const session = this.#dice.from(this.#sessions);
    const { tenantId, projectId, lane } = session;
    const events = Array.from({ length: this.#dice.between(1, 4) }, () => {
      const promised = this.#eventIds.find((one) => !one.isSent && one.session === session);
      const known = promised ?? this.#promise(session);
      known.isSent = true;
      return anEvent({
        id: known.id,
        sessionId: this.#dice.chance(0.8) ? session.id : null,
        occurredAt: this.#occurredAt(session),
      });
    });
    const message: EventsAccepted = {
      appendId: this.#dice.uuid(),
      tenantId,
      projectId,
      // Sometimes the log stores an append long after its decision, like the rest of a repeated report.
      receivedAt: this.#topology.nowMs - (this.#dice.chance(0.1) ? 20 * MINUTE_MS : 0),
      revision: 'B',
      idempotency: this.#dice.chance(0.3)
        ? { key: this.#dice.eventId(this.#topology.nowMs, 0), digest: Buffer.alloc(32) }
        : null,
      events,
    };
    this.#append(partitionOf(tenantId, lane, this.#topology.partitions), message);
    for (const { id } of events) this.#arrivedAt.set(id, this.#topology.nowMs);
  }

  #append(partition: number, message: EventsAccepted): void {
    this.#appended.push({ partition, message });
    this.#topology.appendEvents(partition, message);
  }

  /** Returns a time of a wrong clock, or a time near a report of the session. */
  #occurredAt(session: Session): bigint {
    const report = this.#dice.maybe(this.#filed.filter(({ record }) => record.sessionId === session.id));
    if (report === undefined || this.#dice.chance(0.5))
      return BigInt(this.#topology.nowMs + this.#lag()) * 1000n;
    const { fromMicros, toMicros } = windowOf(report.record);
    const inside = fromMicros + BigInt(this.#dice.between(0, 11 * MINUTE_MS)) * 1000n;
    return this.#dice.from([fromMicros - 1n, fromMicros, inside, inside, inside, toMicros, toMicros + 1n]);
  }

  /** Returns the offset of the game's clock. */
  #lag(): number {
    return this.#dice.from([0, -SECOND_MS, -2 * MINUTE_MS, -9 * MINUTE_MS, -HOUR_MS, -24 * HOUR_MS, HOUR_MS]);
  }

  /** Repeats an append: immediately without a key, at any time with a key. */
  #repeatAppend(): void {
    const known = this.#dice.chance(0.5) ? this.#appended.at(-1) : this.#dice.maybe(this.#appended);
    if (known === undefined) return;
    if (known.message.idempotency === null && known !== this.#appended.at(-1)) return;
    this.#topology.appendEvents(known.partition, known.message);
  }

  #promise(session: Session) {
    const promised = { id: this.#dice.eventId(this.#topology.nowMs, session.lane), session, isSent: false };
    this.#eventIds.push(promised);
    return promised;
  }

  #fileReport(): void {
    const session = this.#dice.from(this.#sessions);
    const names = () =>
      Array.from({ length: this.#dice.between(0, 4) }, () => {
        if (this.#dice.chance(0.3)) return this.#promise(session).id;
        return (this.#dice.maybe(this.#eventIds.slice(-8)) ?? this.#promise(session)).id;
      });
    const isOfSession = this.#dice.chance(0.7);
    const inlineEventIds = this.#dice.chance(0.3) ? names() : [];
    const eventIds = names();
    if (!isOfSession && inlineEventIds.length + eventIds.length === 0) return;
    const record = aReportLink({
      tenantId: session.tenantId,
      projectId: session.projectId,
      reportId: this.#dice.uuid(),
      receivedAt: this.#topology.nowMs,
      occurredAt: this.#dice.chance(0.5) ? BigInt(this.#topology.nowMs + this.#lag()) * 1000n : null,
      windowAfterMs: this.#dice.from([MINUTE_MS, MINUTE_MS, 24 * HOUR_MS]),
      sessionId: isOfSession ? session.id : null,
      sessionLane: isOfSession && this.#dice.chance(0.7) ? session.lane : null,
      maxSessionLinks: this.#dice.from([DEFAULT_MAX_SESSION_LINKS, DEFAULT_MAX_SESSION_LINKS, 0, 1, 2, 4]),
      inlineEventIds,
      eventIds,
    });
    this.#file(record);
  }

  #file(record: ReportLink): void {
    const isForeign = this.#dice.chance(0.1);
    const partition = isForeign ? this.#dice.between(0, this.#topology.partitions - 1) : undefined;
    this.#filed.push({ record, partition });
    this.#topology.appendReport(record, partition);
  }

  /** Files the same report again, or another report with the same id. */
  #fileAgain(): void {
    const known = this.#dice.maybe(this.#filed);
    if (known === undefined) return;
    const other = { eventIds: [this.#promise(this.#dice.from(this.#sessions)).id] };
    this.#file({
      ...known.record,
      receivedAt: this.#topology.nowMs,
      ...(this.#dice.chance(0.5) ? other : {}),
    });
  }

  #retract(): void {
    const known = this.#dice.maybe(this.#filed);
    if (known === undefined) return;
    const record = { ...known.record, kind: 'retracted', receivedAt: this.#topology.nowMs } as const;
    this.#topology.appendReport({ ...record, inlineEventIds: [], eventIds: [], sessionId: null });
  }

  /** Processes everything before and after time passes: a spilled report is looked up every ten seconds. */
  #deliver(millis: number): void {
    this.#topology.settle();
    this.#topology.advance(millis);
    this.#topology.settle();
  }
}
