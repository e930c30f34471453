/** Events of a request in arrays: their sessions, states, ids, and records. */
import { switchEvents } from '@questlog/runtime/directory/core/switchEvents';
import type { Principal } from '@questlog/runtime/directory/directory';
import { allocateBytes } from '@questlog/schemas/buffers';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import { laneOfSession } from '@questlog/schemas/partition';
import { UUID_LENGTH } from '@questlog/schemas/uuid';
import { buildProblems } from '../core/tokenBuilds.ts';
import type { CachedSession } from '../entityCache/core/packedSessions.ts';
import type { RecentSession } from '../entityCache/core/recentSessions.ts';
import type { SessionCache } from '../entityCache/sessionCache.ts';
import { unknownSession } from './core/accept.ts';
import { EARLIER, type EventArrays, NEW, OVER_QUOTA, SAMPLED_OUT } from './core/eventBytes.ts';
import { ABSENT, EventColumns, MAX_EVENTS } from './core/eventColumns.ts';
import type { Idempotency } from './core/keyedIds.ts';
import { type RecordPart, RecordParts, type RecordShape } from './core/recordParts.ts';
import type { StoredColumns, StoredElement } from './replayCache.ts';

export interface EventsRequest {
  readonly principal: Principal;
  /** Bytes of the request body, which must be valid UTF-8. */
  readonly body: Buffer;
  /** Null if the request has no idempotency key. */
  readonly idempotency: Idempotency | null;
  /** True if the valid elements of the request are stored even if other elements are invalid. */
  readonly isLenient: boolean;
}

export type EventStates = Pick<EventBatch, 'states' | 'sampleRates'>;

/** Events of the current request. Later requests reuse the arrays, because new arrays cost more time than a request. */
export class EventBatch implements EventArrays {
  readonly columns = new EventColumns();
  readonly states = new Uint8Array(MAX_EVENTS);
  readonly sampleRates = new Float64Array(MAX_EVENTS);
  readonly lanes = new Uint16Array(MAX_EVENTS);
  readonly next = new Uint16Array(MAX_EVENTS);
  readonly ids = Buffer.allocUnsafeSlow(MAX_EVENTS * UUID_LENGTH);
  readonly sessions: (RecentSession | null)[] = Array.from({ length: MAX_EVENTS }, () => null);

  /**
   * Finds the session of each event, and returns the problems of events with an unknown session or with a build that the token
   * may not write. Returns undefined if a session is not cached and has not been looked up. After the lookup, an
   * unknown session stays unknown even if a client registers the session while the request waits. Otherwise, the request could
   * store an event for which it has not claimed its idempotency key.
   * @param found looked-up sessions by id. Undefined before the lookup
   */
  findSessions(
    cache: Pick<SessionCache, 'peek'>,
    { principal, idempotency }: EventsRequest,
    found: ReadonlyMap<string, CachedSession> | undefined,
  ): ElementProblem[] | undefined {
    const { tenant, project, buildIds } = principal;
    const { columns } = this;
    const problems: ElementProblem[] = [];
    let requestLane: number | undefined;
    for (let event = 0; event < columns.count; event++) {
      let session: RecentSession | null | undefined = null;
      let ofEvent: readonly ElementProblem[] = NO_PROBLEMS;
      if (columns.sessionAt[event] === ABSENT) {
        requestLane ??= laneOfSession(idempotency?.key ?? crypto.randomUUID(), tenant.spread);
      } else {
        const idOf = (): string => columns.sessionIdOf(event) ?? '';
        const isUnknown = found?.has(idOf()) === false;
        session = isUnknown ? null : cache.peek(project.id, columns.sessionWords, event * 4, idOf);
        if (session === undefined) {
          const lookedUp = found?.get(idOf());
          if (lookedUp === undefined) return undefined;
          session = toRecent(project.id, lookedUp);
        }
        if (isUnknown) ofEvent = [unknownSession(columns.index[event] ?? 0, idOf(), project.id)];
      }
      if (buildIds !== undefined && ofEvent.length === 0) {
        const builds = { buildId: columns.buildIdOf(event), sessionId: session?.buildId };
        ofEvent = buildProblems(buildIds, builds, columns.index[event]);
      }
      if (ofEvent.length > 0) problems.push(...ofEvent);
      this.states[event] = ofEvent.length === 0 ? NEW : 0;
      this.sampleRates[event] = 0;
      this.sessions[event] = session;
      this.lanes[event] = session?.lane ?? requestLane ?? 0;
    }
    return problems;
  }

  sessionIds(): string[] {
    const ids = new Set<string>();
    for (let event = 0; event < this.columns.count; event++) {
      const id = this.columns.sessionIdOf(event);
      if (id !== undefined) ids.add(id);
    }
    return [...ids];
  }

  /** Returns the number of events whose state has the value `expected` in the bits of `mask`. */
  countOf(mask: number, expected: number): number {
    let count = 0;
    for (let event = 0; event < this.columns.count; event++)
      if (((this.states[event] ?? 0) & mask) === expected) count += 1;
    return count;
  }

  /** Returns the indexes of the new events in the request. */
  newIndexes(): number[] {
    return this.#newEvents().map((event) => this.columns.index[event] ?? 0);
  }

  /** Marks the events that an earlier attempt has stored, and takes over their ids, times, and over-quota flags. */
  markEarlier(stored: readonly StoredElement[]): void {
    if (stored.length === 0) return;
    const byIndex = new Map(stored.map((element) => [element.index, element]));
    for (const event of this.#newEvents()) {
      const element = byIndex.get(this.columns.index[event] ?? 0);
      if (element === undefined) continue;
      const { id, occurredAt, overQuota, isSampledOut = false } = element;
      this.states[event] = EARLIER | (overQuota ? OVER_QUOTA : 0) | (isSampledOut ? SAMPLED_OUT : 0);
      this.ids.write(id, event * UUID_LENGTH, 'latin1');
      this.columns.setTime(event, occurredAt);
    }
  }

  /** Applies the switches of the project to the new events. Returns the problems of the events that a switch rejects. */
  applySwitches({ principal, idempotency }: EventsRequest, nowMs: number): readonly ElementProblem[] {
    const { switches = [] } = principal.project;
    if (switches.length === 0) return NO_PROBLEMS;
    const { columns } = this;
    const drafts = this.#newEvents().map((event) => {
      const session = this.sessions[event];
      return {
        event,
        index: columns.index[event] ?? 0,
        eventType: columns.typeOf(event),
        buildId: columns.buildIdOf(event) ?? session?.buildId ?? null,
        sessionId: session?.sessionId ?? null,
        player: session?.player,
      };
    });
    const fallbackKey = idempotency?.key ?? crypto.randomUUID();
    const { kept, sampledOut, rejectedElements } = switchEvents(switches, drafts, { nowMs, fallbackKey });
    if (rejectedElements.length > 0) for (const { event } of drafts) this.states[event] = 0;
    for (const { event, sampleRate = 0 } of kept) {
      this.states[event] = NEW;
      this.sampleRates[event] = sampleRate;
    }
    for (const { event } of sampledOut) this.states[event] = NEW | SAMPLED_OUT;
    return rejectedElements;
  }

  /** Rejects the new events after the first `permitted` ones. Returns their indexes in the request. */
  rejectAfter(permitted: number): number[] {
    const rejected = this.#newEvents()
      .filter((event) => (this.states[event] ?? 0) === NEW)
      .slice(permitted);
    for (const event of rejected) this.states[event] = 0;
    return rejected.map((event) => this.columns.index[event] ?? 0);
  }

  /** Copies the results of the switches and of the rate limit, because other requests change the arrays during an `await`. */
  copyStates(): EventStates {
    const { count } = this.columns;
    return { states: this.states.slice(0, count), sampleRates: this.sampleRates.slice(0, count) };
  }

  /** Restores copied states after the body was read again. Events that have become invalid in the meantime stay invalid. */
  restoreStates({ states, sampleRates }: EventStates): void {
    for (let event = 0; event < this.columns.count; event++)
      if (this.states[event] !== 0) this.states[event] = states[event] ?? 0;
    this.sampleRates.set(sampleRates);
  }

  /** Assigns the events that the request stores to records. */
  assignRecords(shape: RecordShape): readonly RecordPart[] {
    const records = new RecordParts(shape, this.next);
    for (let event = 0; event < this.columns.count; event++) {
      if (this.states[event] === NEW)
        records.add(event, this.lanes[event] ?? 0, this.sessions[event]?.sessionId ?? null);
    }
    return records.all;
  }

  /**
   * Flags the new events above the quota. The stored events come first, then the events that a sampling switch dropped.
   * @param remaining number of events that the quota still allows. Negative if the tenant has exceeded the quota
   */
  flagOverQuota(remaining: number, storedCount: number): void {
    if (remaining >= this.columns.count) return;
    let stored = 0;
    let sampledOut = storedCount;
    for (let event = 0; event < this.columns.count; event++) {
      const state = this.states[event] ?? 0;
      if ((state & NEW) === 0) continue;
      const position = (state & SAMPLED_OUT) === 0 ? stored++ : sampledOut++;
      if (position >= remaining) this.states[event] = state | OVER_QUOTA;
    }
  }

  /** Returns a copy of the new events for the cache of replays. Changes the arrays, which the caller may not use afterwards. */
  takeNewEvents(): StoredColumns {
    const { columns, states, ids } = this;
    const { index, seconds, micros } = columns;
    let count = 0;
    for (let event = 0; event < columns.count; event++) {
      if (((states[event] ?? 0) & NEW) === 0) continue;
      if (count < event) {
        for (const array of [index, seconds, micros, states]) array[count] = array[event] ?? 0;
        ids.copyWithin(count * UUID_LENGTH, event * UUID_LENGTH, (event + 1) * UUID_LENGTH);
      }
      count += 1;
    }
    const copiedIds = allocateBytes(count * UUID_LENGTH);
    ids.copy(copiedIds);
    const copies = { indexes: index.slice(0, count), states: states.slice(0, count) };
    const times = { seconds: seconds.slice(0, count), micros: micros.slice(0, count) };
    return { count, ids: copiedIds, ...copies, ...times };
  }

  #newEvents(): number[] {
    const events: number[] = [];
    for (let event = 0; event < this.columns.count; event++)
      if (((this.states[event] ?? 0) & NEW) !== 0) events.push(event);
    return events;
  }
}

function toRecent(projectId: string, session: CachedSession): RecentSession {
  const { buildId } = session;
  return { ...session, projectId, build: buildId === null ? null : Buffer.from(buildId) };
}

const NO_PROBLEMS: readonly ElementProblem[] = [];
