/**
 * A linker on a modelled log: no broker, no database, a clock moved by hand, and every step a call. Members can die at
 * any boundary of a step; what a step writes is in the log whole or not at all. For tests.
 */
import { partitionOf } from '@questlog/schemas/partition';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';
import type { LinkerEntry } from '@questlog/schemas/topics/linkerState';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { decideAnswer } from './core/decideAnswers.ts';
import { decideEvents } from './core/decideEvents.ts';
import { decideReportLink } from './core/decideReports.ts';
import type { Decision } from './core/decision.ts';
import { type Answer, type Job, MAX_A_JOB, nextJob } from './core/jobs.ts';
import { LINKER_BOUNDS, type LinkerBounds, LinkerState } from './core/linkerState.ts';
import { MODEL_LOG, ModelTables, type ModelTopics, type Positions } from './modelTables.testing.ts';

interface LookUp {
  readonly job: Job;
  /** What must be projected first; of `close`, also what must be consumed first. */
  readonly needs: Positions;
  readonly mustConsume: number;
  /** The partition's own events are seen below it. */
  below: number | undefined;
  answer: Answer | undefined;
}

interface Member {
  readonly state: LinkerState;
  position: { events: number; reports: number };
  /** Decided and not committed. */
  links: LinkedEvent[];
  notices: Decision['notices'][number][];
  lookUp: LookUp | undefined;
  lastKind: Job['kind'] | undefined;
}

export class Topology {
  nowMs = Date.UTC(2026, 10, 21, 12);
  readonly partitions: number;
  readonly topics: ModelTopics;
  readonly projected: Positions;
  readonly lanes = new Map<string, number>();
  readonly #bounds: LinkerBounds;
  readonly #changelog: Map<string, LinkerEntry>[];
  readonly #committed: { events: number; reports: number }[];
  readonly #members: (Member | undefined)[];
  /** When the log took each append of events. */
  readonly #arrivals: number[][];

  constructor(partitions: number, bounds: LinkerBounds = LINKER_BOUNDS) {
    this.partitions = partitions;
    this.#bounds = bounds;
    const each = <T>(make: () => T): T[] => Array.from({ length: partitions }, make);
    this.topics = { events: each(() => []), reports: each(() => []), links: each(() => []) };
    this.projected = { events: each(() => 0), reports: each(() => 0), links: each(() => 0) };
    this.#changelog = each(() => new Map());
    this.#committed = each(() => ({ events: 0, reports: 0 }));
    this.#members = each(() => undefined);
    this.#arrivals = each(() => []);
  }

  appendEvents(partition: number, message: EventsAccepted): void {
    this.topics.events[partition]?.push(message);
    this.#arrivals[partition]?.push(this.nowMs);
  }

  /** Home, unless a foreign producer's partitioner thought otherwise. */
  appendReport(record: ReportLink, partition = partitionOf(record.tenantId, 0, this.partitions)): void {
    this.topics.reports[partition]?.push(record);
  }

  /** The process of a partition dies; what it had not committed is gone. */
  crash(partition: number): void {
    this.#members[partition] = undefined;
  }

  /** Reads the next record of a topic; what comes of it is committed later. */
  consume(partition: number, topic: 'events' | 'reports'): boolean {
    const member = this.#member(partition);
    const offset = member.position[topic];
    const decision = this.#decide(member, topic, offset);
    if (decision === undefined) return false;
    member.position = { ...member.position, [topic]: offset + 1 };
    this.#put(member, decision);
    return true;
  }

  /** Links, notices, the changelog and the offsets, together. */
  commit(partition: number): void {
    const member = this.#member(partition);
    this.topics.links[partition]?.push(...member.links);
    for (const notice of member.notices) this.topics.reports[notice.partition]?.push(notice.record);
    for (const { key, entry } of member.state.drain()) {
      if (entry === null) this.#changelog[partition]?.delete(key);
      else this.#changelog[partition]?.set(key, structuredClone(entry));
    }
    this.#committed[partition] = member.position;
    member.links = [];
    member.notices = [];
  }

  project(topic: keyof ModelTopics, partition: number, count: number): boolean {
    const end = this.topics[topic][partition]?.length ?? 0;
    const before = this.projected[topic][partition] ?? 0;
    this.projected[topic][partition] = Math.min(end, before + count);
    return before < end;
  }

  /** Begins a look-up, has it answered, or takes its answer in, whichever is next. @param limit links of one answer. */
  lookUp(partition: number, limit = 1_000, dies = false): boolean {
    const member = this.#member(partition);
    const running = member.lookUp;
    if (running === undefined) return this.#begin(member);
    if (running.answer === undefined) return this.#answer(member, running, limit);
    this.#put(member, decideAnswer(member.state, running.job, running.answer, this.nowMs, MODEL_LOG));
    if (dies) {
      this.crash(partition);
      return true;
    }
    this.commit(partition);
    member.lookUp = undefined;
    return true;
  }

  /** Goes on until nothing moves; time stands still. */
  settle(): void {
    for (let moves = true; moves; ) {
      moves = false;
      for (let p = 0; p < this.partitions; p++) {
        moves = this.consume(p, 'reports') || moves;
        moves = this.consume(p, 'events') || moves;
        this.commit(p);
        for (const topic of ['events', 'reports', 'links'] as const)
          moves = this.project(topic, p, 10) || moves;
        moves = this.lookUp(p) || moves;
      }
    }
  }

  advance(millis: number): void {
    this.nowMs += millis;
  }

  tables(): ModelTables {
    return new ModelTables(this.topics, this.projected, this.lanes);
  }

  /** Every record of the links, in the order of its partition. */
  links(): LinkedEvent[] {
    return this.topics.links.flat();
  }

  stateOf(partition: number): LinkerState {
    return this.#member(partition).state;
  }

  /** A new owner builds its state from the changelog, and reads on from what was committed. */
  #member(partition: number): Member {
    const known = this.#members[partition];
    if (known !== undefined) return known;
    const state = new LinkerState(partition, this.partitions, this.#bounds);
    for (const [key, entry] of this.#changelog[partition] ?? []) state.restore(key, entry);
    for (const { record } of this.tables().reports.values()) {
      if (record.sessionId !== null) state.sessionsWithReports.add(record.sessionId);
    }
    state.sessionsWithReports.complete();
    const position = this.#committed[partition] ?? { events: 0, reports: 0 };
    const member: Member = {
      state,
      position,
      links: [],
      notices: [],
      lookUp: undefined,
      lastKind: undefined,
    };
    this.#members[partition] = member;
    return member;
  }

  #decide(member: Member, topic: 'events' | 'reports', offset: number): Decision | undefined {
    const { state } = member;
    if (topic === 'events') {
      const message = this.topics.events[state.partition]?.[offset];
      const arrivedAtMs = this.#arrivals[state.partition]?.[offset] ?? 0;
      return message && decideEvents(state, { offset, arrivedAtMs }, message, this.nowMs);
    }
    const record = this.topics.reports[state.partition]?.[offset];
    return record && decideReportLink(state, offset, record, this.nowMs);
  }

  #put(member: Member, { links, notices, changes }: Decision): void {
    member.state.evolve(changes);
    member.links.push(...links);
    member.notices.push(...notices);
  }

  #begin(member: Member): boolean {
    const job = nextJob(member.state, this.nowMs, { after: member.lastKind, max: MAX_A_JOB });
    if (job === undefined) return false;
    member.lastKind = job.kind;
    const { partition } = member.state;
    this.commit(partition);
    const ends = (topic: keyof ModelTopics) => this.topics[topic].map((log) => log.length);
    const own = (topic: keyof ModelTopics) => ends(topic).map((end, p) => (p === partition ? end : 0));
    const needsAll = job.kind === 'close';
    member.lookUp = {
      job,
      needs: {
        events: needsAll ? ends('events') : ends('events').map(() => 0),
        reports: job.kind === 'late' ? ends('reports') : own('reports'),
        links: own('links'),
      },
      mustConsume: needsAll ? (this.topics.events[partition]?.length ?? 0) : 0,
      below: undefined,
      answer: undefined,
    };
    return true;
  }

  #answer(member: Member, lookUp: LookUp, limit: number): boolean {
    const { partition } = member.state;
    if ((this.#committed[partition]?.events ?? 0) < lookUp.mustConsume) return false;
    if (lookUp.below === undefined) {
      lookUp.below = this.#committed[partition]?.events ?? 0;
      lookUp.needs.events[partition] = Math.max(lookUp.needs.events[partition] ?? 0, lookUp.below);
      lookUp.needs.links[partition] = this.topics.links[partition]?.length ?? 0;
    }
    for (const topic of ['events', 'reports', 'links'] as const) {
      if (lookUp.needs[topic].some((need, p) => (this.projected[topic][p] ?? 0) < need)) return false;
    }
    lookUp.answer = this.tables().answer(member.state, lookUp.job, lookUp.below, limit);
    return true;
  }
}
