/** Groups the events of a request into records of the log. The keys group events as the names of `recordName` do. Pure. */
import type { RecordShape } from './accept.ts';

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
  readonly #byKey = new Map<string | number | null, RecordPart>();
  #record: RecordPart | undefined;
  #key: string | number | null = null;

  /** @param next array to fill: for each event, the position of the next event of the same record */
  constructor(shape: RecordShape, next: Uint16Array) {
    this.#shape = shape;
    this.#next = next;
  }

  add(event: number, lane: number, sessionId: string | null): void {
    const key = this.#keyOf(event, lane, sessionId);
    if (this.#record === undefined || key !== this.#key) {
      this.#record = this.#byKey.get(key);
      this.#key = key;
    }
    if (this.#record === undefined) {
      this.#record = { lane, sessionId, first: event, last: event, events: 0 };
      this.#byKey.set(key, this.#record);
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
