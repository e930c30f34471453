/** Groups the events of a request into records of the log. The keys group events as the names of `recordName` do. Pure. */
import { isRestricted, type Principal } from '@questlog/runtime/directory/directory';

/**
 * Events that share a record if the request has an idempotency key: all events of a lane, all events of a session, or one event
 * alone. The events of a record share its append id. A retry can add only whole records, because consumers drop a record whose
 * append id is stored. Without an idempotency key, each lane has one record.
 */
export type RecordShape = 'lane' | 'session' | 'event';

/** Returns the shape of the records of a request whose events are not sampled. */
export function recordShape(
  principal: Principal,
  { isLenient, idempotencyKey }: { readonly isLenient: boolean; readonly idempotencyKey: string | undefined },
): RecordShape {
  if (!isLenient || idempotencyKey === undefined) return 'lane';
  const { buildIds, project } = principal;
  // Switches, rate limits, and tokens for some builds can exclude some events of a session, which a retry then adds.
  const canExclude = buildIds !== undefined || (project.switches ?? []).length > 0 || isRestricted(principal);
  return canExclude ? 'event' : 'session';
}

/** Returns the name of an event's record. An event gets the same name in a retry, even if the first attempt excluded elements. */
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

/** Events of a request that are appended as one record. */
export interface RecordPart {
  readonly lane: number;
  readonly sessionId: string | null;
  /** Positions of the first and the last event of the record in the request. */
  readonly first: number;
  last: number;
  events: number;
}

export class RecordParts {
  readonly all: RecordPart[] = [];
  readonly #shape: RecordShape;
  readonly #next: Uint16Array;
  /** Undefined while there is only one record, because most requests have one. */
  #byKey: Map<string | number | null, RecordPart> | undefined;
  #record: RecordPart | undefined;
  #key: string | number | null = null;

  /** @param next array to fill: for each event, the position of the next event of the same record */
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
