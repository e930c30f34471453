/** Groups the events of a request into log records. Events with equal record names (`recordName`) share a record. Pure. */
import { isRestricted, type Principal } from '@questlog/runtime/directory/directory';

/**
 * Events of a request that share one log record:
 * - `lane`: all events with the same lane, a number that determines the partition.
 * - `session`: all events of a session.
 * - `event`: only one event.
 *
 * A record has one append id, and consumers drop a record whose append id is stored. A retry can therefore add only whole
 * records.
 */
export type RecordShape = 'lane' | 'session' | 'event';

/** Returns which events of a request share a record. If sampling drops events of the request, the caller ignores the result. */
export function recordShape(
  principal: Principal,
  { isLenient, idempotency }: { readonly isLenient: boolean; readonly idempotency: object | null },
): RecordShape {
  if (!isLenient || idempotency === null) return 'lane';
  const { buildIds, project } = principal;
  // If switches, rate limits, or the token can exclude single events, uses one record per event. A retry can then add an event
  // that the first attempt excluded.
  const canExclude = buildIds !== undefined || (project.switches ?? []).length > 0 || isRestricted(principal);
  return canExclude ? 'event' : 'session';
}

/** Returns the name of an event's record. A retry uses the same name, even if the first attempt excluded some elements. */
export function recordName(
  shape: RecordShape,
  {
    index,
    lane,
    sessionId,
  }: { readonly index: number; readonly lane: number; readonly sessionId: string | null },
): string {
  if (shape === 'event') return `event ${index}`;
  if (shape === 'lane') return `lane ${lane}`;
  return `session ${sessionId ?? 'none'}`;
}

/** Events of a request that are appended as one log record. */
export interface RecordPart {
  readonly lane: number;
  readonly sessionId: string | null;
  /** Indexes of the record's first and last event in the request. */
  readonly first: number;
  last: number;
  events: number;
}

export class RecordParts {
  readonly all: RecordPart[] = [];
  readonly #shape: RecordShape;
  readonly #next: Uint16Array;
  /** Records by key. Undefined if the request has only one record, which is the usual case. */
  #byKey: Map<string | number | null, RecordPart> | undefined;
  #record: RecordPart | undefined;
  #key: string | number | null = null;

  /** @param next the array to fill. For each event, it receives the index of the next event of the same record. */
  constructor(shape: RecordShape, next: Uint16Array) {
    this.#shape = shape;
    this.#next = next;
  }

  add(event: number, lane: number, sessionId: string | null): void {
    const key = this.#keyOf(event, lane, sessionId);
    if (key !== this.#key) {
      if (this.#record !== undefined) this.#byKey ??= new Map([[this.#key, this.#record]]);
      this.#record = this.#byKey?.get(key);
      this.#key = key;
    }
    if (this.#record === undefined) {
      this.#record = { lane, sessionId, first: event, last: event, events: 0 };
      this.#byKey?.set(key, this.#record);
      this.all.push(this.#record);
    }
    this.#next[this.#record.last] = event;
    this.#record.last = event;
    this.#record.events += 1;
  }

  #keyOf(event: number, lane: number, sessionId: string | null): string | number | null {
    if (this.#shape === 'lane') return lane;
    return this.#shape === 'session' ? sessionId : event;
  }
}
