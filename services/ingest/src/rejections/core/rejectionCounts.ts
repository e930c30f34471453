/**
 * Counts rejections and ignored fields by minute, project, code, and field. A project that sends ever new names reaches
 * only its own limit. Pure.
 */
import type { ProblemCode } from '@questlog/schemas/http/problem';
import type { TimeWarning } from '../../core/clockSkew.ts';
import { minuteOf } from '../../ledger/core/receivedCounts.ts';
import { mask, type OffendingPart, truncateUtf8 } from './offendingPart.ts';

/** Endpoint of a request, and its tenant and project. The ids are zeros if the project is unknown. */
export interface Origin {
  readonly tenantId: string;
  readonly projectId: string;
  readonly endpoint: string;
}

export const NIL_UUID = '00000000-0000-0000-0000-000000000000';

export interface Rejection {
  readonly kind: 'rejected' | 'ignored' | 'warned';
  readonly code: ProblemCode | TimeWarning;
  /** Position in the request's array. */
  readonly index: number;
  /** JSON pointer (RFC 6901) into the element. Empty for the whole element. */
  readonly pointer: string;
}

export interface RejectionRow extends Origin, Pick<Rejection, 'kind' | 'code'> {
  /** Seconds since the epoch. */
  readonly minuteS: number;
  readonly field: string;
  count: number;
  requests: number;
  /** Seconds since the epoch. */
  lastSeenS: number;
  readonly part: OffendingPart;
}

/** Maximum fields of a project in a minute. Further fields are counted by code only, as the field `other`. */
export const MAX_FIELDS_PER_MINUTE = 100;
/** Maximum rows of a project while ClickHouse is unavailable. */
export const MAX_ROWS_PER_PROJECT = 400;
/** Maximum rows of all projects. */
export const MAX_ROWS = 40_000;
const MAX_FIELD_BYTES = 128;
/**
 * Number of characters that are searched for secrets. Larger than the stored length, so that a partly stored secret is
 * recognized.
 */
const MAX_POINTER_CHARACTERS = 1_024;
const OTHER = 'other';

interface RowsOfProject {
  readonly rows: Map<string, RejectionRow>;
  /** Minute of `fields`, the number of separately counted fields. */
  minuteS: number;
  fields: number;
}

export class RejectionCounts {
  readonly #projects = new Map<string, RowsOfProject>();
  #size = 0;

  /**
   * Counts the rejections of one request.
   * @param partOf is called only for the first rejection of its kind in a minute.
   * @returns the number of rejections that were not counted because of a limit.
   */
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

  /** Returns the counts since the last call. Rows of the current minute stay, with counts of zero. */
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
    const known = project.rows.get(key);
    if (known !== undefined) return known;
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

/** Limits the name, because a client can send any name, also one of megabytes. */
function fieldOf(pointer: string): string {
  const path = pointer.slice(0, MAX_POINTER_CHARACTERS).replaceAll(/\/\d+(?=\/|$)/g, '/*');
  return truncateUtf8(Buffer.from(mask(path)), MAX_FIELD_BYTES);
}
