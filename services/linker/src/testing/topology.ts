/**
 * Simulates a linker and its log for tests, without a broker or a database. The clock is manual, and each step is a call.
 * Members can crash between any two steps. The records of a step are written completely or not at all.
 */
import { partitionOf } from '@questlog/schemas/partition';
import type { EventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { recordOf } from '@questlog/schemas/topics/eventsRecord';
import type { LinkedEvent } from '@questlog/schemas/topics/linkedEvents';
import type { LinkerEntry } from '@questlog/schemas/topics/linkerState';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { decideAnswer } from '../core/decideAnswers.ts';
import { decideEvents } from '../core/decideEvents.ts';
import { decideReportLink } from '../core/decideReports.ts';
import type { Decision } from '../core/decision.ts';
import {
  type Answer,
  type HeavyProjects,
  heavyProjectsAfter,
  type Job,
  MAX_ENTRIES_PER_JOB,
  NO_HEAVY_PROJECTS,
  nextJob,
} from '../core/jobs.ts';
import { LINKER_BOUNDS, type LinkerBounds, LinkerState } from '../core/linkerState.ts';
import { type CommittedPosition, type EndOffsets, requiredOffsetsOf } from '../core/requiredOffsets.ts';
import { MODEL_LOG, ModelTables, type ModelTopics, type Positions } from './modelTables.ts';

interface LookUp {
  readonly job: Job;
  readonly ends: EndOffsets;
  /** Committed position of the lookup. It is set after the required events are consumed. */
  position: CommittedPosition | undefined;
  answer: Answer | undefined;
}

interface Member {
  readonly state: LinkerState;
  position: { events: number; reports: number };
  /** Links that were decided but not committed. */
  links: LinkedEvent[];
  notices: Decision['notices'][number][];
  lookUp: LookUp | undefined;
  readonly suspended: Map<Job['kind'], LookUp>;
  lastKind: Job['kind'] | undefined;
  heavyProjects: HeavyProjects;
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
  /** Arrival time of each append of events, by partition. */
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

  /** Appends a report to its home partition, or to the partition that a foreign producer chose. */
  appendReport(record: ReportLink, partition = partitionOf(record.tenantId, 0, this.partitions)): void {
    this.topics.reports[partition]?.push(record);
  }

  /** Simulates a crash of the partition's process. Uncommitted changes are lost. */
  crash(partition: number): void {
    this.#members[partition] = undefined;
  }

  /** Processes the next record of a topic. A later call of `commit` commits the result. */
  consume(partition: number, topic: 'events' | 'reports'): boolean {
    const member = this.#member(partition);
    const offset = member.position[topic];
    const decision = this.#decide(member, topic, offset);
    if (decision === undefined) return false;
    member.position = { ...member.position, [topic]: offset + 1 };
    this.#put(member, decision);
    return true;
  }

  /** Commits links, notices, changelog entries, and offsets together. */
  commit(partition: number): void {
    const member = this.#member(partition);
    this.topics.links[partition]?.push(...member.links);
    for (const notice of member.notices) this.topics.reports[notice.partition]?.push(notice.record);
    for (const { key, entry } of member.state.drain()) {
      // Deletes the key first, so that a key that is written again moves to the end.
      this.#changelog[partition]?.delete(key);
      if (entry !== null) this.#changelog[partition]?.set(key, structuredClone(entry));
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

  /**
   * Runs the next step of a lookup: starts the lookup, answers it, or applies its answer.
   * @param limit the maximum number of links of one answer
   */
  lookUp(partition: number, limit = 1_000, dies = false): boolean {
    const member = this.#member(partition);
    const running = member.lookUp;
    if (running === undefined) return this.#begin(member);
    if (running.answer === undefined) return this.#answer(member, running, limit);
    const decision = decideAnswer(
      { state: member.state, nowMs: this.nowMs, logId: MODEL_LOG },
      running.answer,
    );
    this.#put(member, decision);
    if (dies) {
      this.crash(partition);
      return true;
    }
    this.commit(partition);
    member.lookUp = undefined;
    member.heavyProjects = heavyProjectsAfter(member.heavyProjects, running.answer);
    if (decision.links.length === 0) return true;
    const links = this.topics.links[partition]?.length ?? 0;
    for (const passed of member.suspended.values()) {
      if (passed.position !== undefined) passed.position = { ...passed.position, links };
    }
    return true;
  }

  /** Suspends a lookup that is still waiting, so that other lookups can run first. */
  suspend(partition: number): void {
    const member = this.#member(partition);
    const { lookUp } = member;
    if (lookUp === undefined || lookUp.answer !== undefined || this.#answer(member, lookUp, 1_000)) return;
    member.suspended.set(lookUp.job.kind, lookUp);
    member.lookUp = undefined;
  }

  /** Repeats all steps until no step changes anything. The clock does not advance. */
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

  /** Returns all link records, in the order of each partition. */
  links(): LinkedEvent[] {
    return this.topics.links.flat();
  }

  stateOf(partition: number): LinkerState {
    return this.#member(partition).state;
  }

  /**
   * Returns the member of a partition. A new owner restores its state from the changelog and resumes at the committed offsets.
   */
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
      suspended: new Map(),
      lastKind: undefined,
      heavyProjects: NO_HEAVY_PROJECTS,
    };
    this.#members[partition] = member;
    return member;
  }

  #decide(member: Member, topic: 'events' | 'reports', offset: number): Decision | undefined {
    const { state } = member;
    if (topic === 'events') {
      const message = this.topics.events[state.partition]?.[offset];
      const arrivedAtMs = this.#arrivals[state.partition]?.[offset] ?? 0;
      return message && decideEvents(state, { offset, arrivedAtMs }, recordOf(message), this.nowMs);
    }
    const record = this.topics.reports[state.partition]?.[offset];
    return record && decideReportLink(state, offset, record, this.nowMs);
  }

  #put(member: Member, { links, notices, changes }: Decision): void {
    member.state.evolve(changes);
    for (const link of links) member.state.countLink(link);
    member.links.push(...links);
    member.notices.push(...notices);
  }

  #begin(member: Member): boolean {
    const { state, suspended, lastKind: after, heavyProjects } = member;
    const job = nextJob(state, this.nowMs, {
      after,
      max: MAX_ENTRIES_PER_JOB,
      suspended,
      heavy: heavyProjects,
    });
    if (job === undefined) return false;
    member.lastKind = job.kind;
    member.lookUp = suspended.get(job.kind);
    if (suspended.delete(job.kind)) return true;
    this.commit(state.partition);
    const ends = (topic: keyof ModelTopics) => this.topics[topic].map((log) => log.length);
    member.lookUp = {
      job,
      ends: {
        events: job.kind === 'close' ? ends('events') : [],
        reports: ends('reports'),
        sessions: [],
      },
      position: undefined,
      answer: undefined,
    };
    return true;
  }

  #answer({ state }: Member, lookUp: LookUp, limit: number): boolean {
    const { partition } = state;
    const { job, ends } = lookUp;
    const consumed = this.#committed[partition]?.events ?? 0;
    if (consumed < (ends.events[partition] ?? 0)) return false;
    const links = this.topics.links[partition]?.length ?? 0;
    lookUp.position ??= { events: consumed, links, eventsEpoch: null, reportLinksEpoch: null };
    const needs = requiredOffsetsOf(job, state, lookUp.position, ends);
    for (const topic of ['events', 'reports', 'links'] as const) {
      for (const [p, { offset }] of needs[topic] ?? [])
        if ((this.projected[topic][p] ?? 0) < offset) return false;
    }
    lookUp.answer = this.tables().answer(state, job, lookUp.position.events, limit);
    return true;
  }
}
