/** Counts rejections and ignored fields by minute, project, problem code, and field. Each project has its own limit. */
import type { ProblemCode } from '@questlog/schemas/http/problem';
import type { TimeWarning } from '../../core/clockSkew.ts';
import { minuteOf } from '../../ledger/core/receivedCounts.ts';
import { mask, type OffendingPart, truncateUtf8 } from './offendingPart.ts';

/** Endpoint, tenant, and project of a rejected request. Both ids are `NIL_UUID` if the project is unknown. */
export interface Origin {
  readonly tenantId: string;
  readonly projectId: string;
  readonly endpoint: string;
}

export interface Rejection {
  readonly kind: 'rejected' | 'ignored' | 'warned';
  readonly code: ProblemCode | TimeWarning;
  readonly index: number;
  /** JSON pointer (RFC 6901) inside the element. Empty if the problem concerns the whole element. */
  readonly pointer: string;
}

export interface RejectionRow extends Origin, Pick<Rejection, 'kind' | 'code'> {
  readonly minuteS: number;
  readonly field: string;
  count: number;
  requests: number;
  lastSeenS: number;
  readonly part: OffendingPart;
}

/** Maximum number of fields per project and minute. Further fields are counted together as `other`. */
export const MAX_FIELDS_PER_MINUTE = 100;
/** Maximum number of rows per project in memory. This number is reached only if ClickHouse is unavailable. */
export const MAX_ROWS_PER_PROJECT = 400;
export const MAX_ROWS = 40_000;
const MAX_FIELD_BYTES = 128;
/**
 * Maximum length of the text in which `mask` searches for secrets. The text is truncated to `MAX_FIELD_BYTES` after the search,
 * because `mask` could miss a truncated secret.
 */
const MAX_POINTER_CHARACTERS = 1_024;
const OTHER = 'other';

interface RowsOfProject {
  readonly rows: Map<string, RejectionRow>;
  minuteS: number;
  fields: number;
}

export class RejectionCounts {
  readonly #projects = new Map<string, RowsOfProject>();
  #size = 0;

  /** Counts the rejections of a request. Returns the number of rejections that were not counted because memory is full. */
  add(
    nowMs: number,
    origin: Origin,
    rejections: readonly Rejection[],
    partOf: (rejection: Rejection) => OffendingPart,
  ): number {
    const touched = new Set<RejectionRow>();
    let dropped = 0;
    for (const rejection of rejections) {
      const row = this.#rowOf(nowMs, origin, rejection, partOf);
      if (row === undefined) {
        dropped++;
        continue;
      }
      row.count++;
      row.lastSeenS = Math.floor(nowMs / 1000);
      touched.add(row);
    }
    for (const row of touched) row.requests++;
    return dropped;
  }

  /** Returns the counts that changed after the previous call. Removes the counts of past minutes from memory. */
  takeCounts(nowMs: number): RejectionRow[] {
    const counted: RejectionRow[] = [];
    for (const [projectId, { rows }] of this.#projects) {
      for (const [key, row] of rows) {
        if (row.count > 0) counted.push({ ...row });
        row.count = 0;
        row.requests = 0;
        if (row.minuteS === minuteOf(nowMs)) continue;
        rows.delete(key);
        this.#size--;
      }
      if (rows.size === 0) this.#projects.delete(projectId);
    }
    return counted;
  }

  #rowOf(
    nowMs: number,
    origin: Origin,
    rejection: Rejection,
    partOf: (rejection: Rejection) => OffendingPart,
  ): RejectionRow | undefined {
    const minuteS = minuteOf(nowMs);
    const project = this.#projectOf(origin.projectId, minuteS);
    const { kind, code } = rejection;
    const field = fieldOf(rejection.pointer);
    const key = `${minuteS} ${kind} ${code} ${origin.endpoint} ${field}`;
    const existing = project.rows.get(key);
    if (existing !== undefined) return existing;
    const row = { ...origin, kind, code, minuteS, field, count: 0, requests: 0, lastSeenS: 0 };
    if (project.fields < MAX_FIELDS_PER_MINUTE) {
      if (!this.#hasRoom(project)) return undefined;
      project.fields++;
      return this.#added(project, key, { ...row, part: partOf(rejection) });
    }
    const otherKey = `${minuteS} ${kind} ${code}`;
    const other = project.rows.get(otherKey);
    if (other !== undefined) return other;
    if (!this.#hasRoom(project)) return undefined;
    return this.#added(project, otherKey, { ...row, endpoint: '', field: OTHER, part: EMPTY_PART });
  }

  #projectOf(projectId: string, minuteS: number): RowsOfProject {
    const project = this.#projects.get(projectId) ?? { rows: new Map(), minuteS, fields: 0 };
    this.#projects.set(projectId, project);
    if (project.minuteS !== minuteS) Object.assign(project, { minuteS, fields: 0 });
    return project;
  }

  #hasRoom({ rows }: RowsOfProject): boolean {
    return rows.size < MAX_ROWS_PER_PROJECT && this.#size < MAX_ROWS;
  }

  #added({ rows }: RowsOfProject, key: string, row: RejectionRow): RejectionRow {
    rows.set(key, row);
    this.#size++;
    return row;
  }
}

export const EMPTY_PART: OffendingPart = { sample: '', eventType: '' };

function fieldOf(pointer: string): string {
  const path = pointer.slice(0, MAX_POINTER_CHARACTERS).replaceAll(/\/\d+(?=\/|$)/g, '/*');
  return truncateUtf8(Buffer.from(mask(path)), MAX_FIELD_BYTES);
}
