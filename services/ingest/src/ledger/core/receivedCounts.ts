/** Counts received requests and appended records by tenant and minute. */

/** Outcomes that the ledger counts for events. Requests have other outcomes, such as `accepted`. */
export const LOGGED = 'logged';
export const UNCERTAIN = 'uncertain';
/** Outcome of events that were accepted but not stored, because an operator's switch keeps only a sample of the events. */
export const SAMPLED = 'sampled';

export interface ReceivedRow {
  readonly tenantId: string;
  /** Start of the minute, in seconds since the epoch. */
  readonly minuteS: number;
  readonly outcome: string;
  readonly count: number;
  readonly events: number;
}

interface Cell {
  count: number;
  events: number;
  isChanged: boolean;
}

/**
 * Maximum number of counts in memory. Each count needs about 100 bytes. If the maximum is reached, new tenants are not counted.
 */
export const MAX_CELLS = 40_000;
/** Seconds for which the counts of a minute stay in memory. Every request that starts in the minute ends within this time. */
const RETENTION_SECONDS = 15 * 60;

interface Minute {
  readonly tenants: Map<string, Map<string, Cell>>;
  /**
   * True if the memory limit was reached in this minute. New tenants are then not counted in this minute, because partial
   * counts would look like lost events.
   */
  isFull: boolean;
}

export class ReceivedCounts {
  readonly #minutes = new Map<number, Minute>();
  #cells = 0;

  /**
   * Adds the outcome of a request to the counts of the minute in which the request started. Returns false if memory is full, or
   * if the minute is too old.
   */
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

  #cellsOf(minuteS: number, tenantId: string): Map<string, Cell> | undefined {
    const minute = this.#minutes.get(minuteS) ?? {
      tenants: new Map<string, Map<string, Cell>>(),
      isFull: false,
    };
    this.#minutes.set(minuteS, minute);
    const existing = minute.tenants.get(tenantId);
    minute.isFull ||= existing === undefined && this.#cells >= MAX_CELLS;
    if (existing !== undefined || minute.isFull) return existing;
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

export function minuteOf(atMs: number): number {
  return Math.floor(atMs / 60_000) * 60;
}
