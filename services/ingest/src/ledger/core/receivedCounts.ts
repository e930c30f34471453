/** Counts received requests and appended records by tenant and minute. Pure. */

/** Outcomes of appends. The outcome of a request is `accepted`, `replayed`, or a problem code. */
export const LOGGED = 'logged';
export const UNCERTAIN = 'uncertain';
/** Outcome of accepted events that a switch excluded from its sample. */
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

/** Maximum number of counts. A count takes about 100 bytes. Tenants that already have counts can exceed the limit slightly. */
export const MAX_CELLS = 40_000;
/** Time for which a minute stays in memory. No request takes longer, so no evicted minute is counted again from zero. */
const RETENTION_SECONDS = 15 * 60;

interface Minute {
  /** Counts by tenant and outcome. */
  readonly tenants: Map<string, Map<string, Cell>>;
  /**
   * True if a tenant was rejected because of the limit. If a new tenant were counted later, the ledger would show a difference.
   */
  isFull: boolean;
}

export class ReceivedCounts {
  readonly #minutes = new Map<number, Minute>();
  #cells = 0;

  /** @returns false if the count was dropped because the limit is reached or the minute was evicted. */
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

  /** Returns the counts that changed since the last call. */
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
