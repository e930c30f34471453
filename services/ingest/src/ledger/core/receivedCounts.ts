/** Counts what this process was sent and what the log took of it, a tenant and minute at a time. Pure. */

/** Outcomes of requests are `accepted`, `replayed` and the codes of problems. */
export const LOGGED = 'logged';
export const UNCERTAIN = 'uncertain';
/** Of the accepted events, those that a switch left out of its sample. */
export const SAMPLED = 'sampled';

export interface ReceivedRow {
  readonly tenantId: string;
  /** Seconds since the epoch. */
  readonly minuteS: number;
  readonly outcome: string;
  /** Requests or records, from the begin of the minute. */
  readonly count: number;
  readonly events: number;
}

interface Cell {
  count: number;
  events: number;
  isChanged: boolean;
}

/** Of all tenants and minutes; 100 bytes each or so. A tenant's minute that has one may add the others: outcomes are few. */
export const MAX_CELLS = 40_000;
/** No request takes so long: what was written of a minute is not counted on from zero. */
const RETENTION_SECONDS = 15 * 60;

interface Minute {
  /** By tenant and what. */
  readonly tenants: Map<string, Map<string, Cell>>;
  /** From the first refusal on: of a tenant that comes again the books would have one half, and miss the other. */
  isFull: boolean;
}

export class ReceivedCounts {
  readonly #minutes = new Map<number, Minute>();
  #cells = 0;

  /** @returns false where a bound is met, or the minute is gone: it is not counted. */
  add(nowMs: number, atMs: number, tenantId: string, outcome: string, events: number): boolean {
    const minuteS = minuteOf(atMs);
    if (minuteS < minuteOf(nowMs) - RETENTION_SECONDS) return false;
    const cells = this.#cellsOf(minuteS, tenantId);
    if (cells === undefined) return false;
    const cell = cells.get(outcome) ?? this.#newCell(cells, outcome);
    cell.count++;
    cell.events += events;
    cell.isChanged = true;
    return true;
  }

  /** What has changed since the last time. A minute is let go some time after its last change was taken. */
  takeChanged(nowMs: number): ReceivedRow[] {
    const rows: ReceivedRow[] = [];
    for (const [minuteS, { tenants }] of this.#minutes) {
      for (const [tenantId, cells] of tenants) {
        for (const [what, cell] of cells) {
          if (cell.isChanged)
            rows.push({ tenantId, minuteS, outcome: what, count: cell.count, events: cell.events });
          cell.isChanged = false;
        }
      }
      if (minuteS < minuteOf(nowMs) - RETENTION_SECONDS) this.#evict(minuteS, tenants);
    }
    return rows;
  }

  /** Undefined where there is no room. */
  #cellsOf(minuteS: number, tenantId: string): Map<string, Cell> | undefined {
    const minute = this.#minutes.get(minuteS) ?? {
      tenants: new Map<string, Map<string, Cell>>(),
      isFull: false,
    };
    this.#minutes.set(minuteS, minute);
    const known = minute.tenants.get(tenantId);
    minute.isFull ||= known === undefined && this.#cells >= MAX_CELLS;
    if (known !== undefined || minute.isFull) return known;
    const cells = new Map<string, Cell>();
    minute.tenants.set(tenantId, cells);
    return cells;
  }

  #newCell(cells: Map<string, Cell>, outcome: string): Cell {
    const cell = { count: 0, events: 0, isChanged: false };
    cells.set(outcome, cell);
    this.#cells++;
    return cell;
  }

  #evict(minuteS: number, tenants: ReadonlyMap<string, ReadonlyMap<string, Cell>>): void {
    for (const cells of tenants.values()) this.#cells -= cells.size;
    this.#minutes.delete(minuteS);
  }
}

/** Seconds since the epoch. */
export function minuteOf(atMs: number): number {
  return Math.floor(atMs / 60_000) * 60;
}
