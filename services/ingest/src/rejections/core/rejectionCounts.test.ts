/** Tests which rejections are counted separately. A flood of one project must not affect the counts of other projects. */
import { describe, expect, test } from 'vitest';
import {
  MAX_FIELDS_PER_MINUTE,
  MAX_ROWS_PER_PROJECT,
  type Rejection,
  RejectionCounts,
  type RejectionRow,
} from './rejectionCounts.ts';

const NOON_MS = Date.UTC(2026, 10, 22, 12);
const MINUTE_MS = 60_000;
const origin = { tenantId: 'tenant', projectId: 'game', endpoint: 'POST /v1/ingest/events' };
const part = { sample: '"x"', eventType: 'checkpoint' };

function aReject(of: Partial<Rejection> = {}): Rejection {
  return { kind: 'rejected', code: 'field_type', index: 0, pointer: '/payload', ...of };
}

function note(
  counts: RejectionCounts,
  rejects: readonly Rejection[],
  nowMs = NOON_MS,
  projectId = 'game',
): number {
  return counts.add(nowMs, { ...origin, projectId }, rejects, () => part);
}

/** Returns rejections with different field names. */
function names(count: number, of = 'name'): Rejection[] {
  return Array.from({ length: count }, (_, n) =>
    aReject({ pointer: `/${of}${String.fromCharCode(97 + (n % 26)).repeat(1 + n / 26)}` }),
  );
}

function countsOf(rows: readonly RejectionRow[]): Record<string, number> {
  return Object.fromEntries(rows.map(({ kind, code, field, count }) => [`${kind} ${code} ${field}`, count]));
}

describe('counts', () => {
  test('are separate by minute, project, endpoint, kind, code, and field', () => {
    const counts = new RejectionCounts();
    note(counts, [aReject(), aReject({ kind: 'ignored' }), aReject({ code: 'field_required' })]);
    note(counts, [aReject({ pointer: '/sessionId' })]);
    note(counts, [aReject()], NOON_MS + MINUTE_MS);
    note(counts, [aReject()], NOON_MS + MINUTE_MS, 'other game');
    counts.add(NOON_MS, { ...origin, endpoint: 'POST /v1/ingest/reports' }, [aReject()], () => part);

    expect(counts.takeCounts(NOON_MS).map(({ count }) => count)).toEqual([1, 1, 1, 1, 1, 1, 1]);
  });

  test('are one field for all indexes, and one request for all occurrences in it', () => {
    const counts = new RejectionCounts();
    note(counts, [
      aReject({ index: 0, pointer: '/events/0/eventType' }),
      aReject({ index: 0, pointer: '/events/12/eventType' }),
      aReject({ index: 0, pointer: '/events/4', code: 'unknown_session' }),
    ]);
    note(counts, [aReject({ index: 7, pointer: '/events/3/eventType' })], NOON_MS + 59_999);

    expect(counts.takeCounts(NOON_MS)).toEqual([
      {
        ...origin,
        ...{ kind: 'rejected', code: 'field_type', field: '/events/*/eventType', part },
        ...{ minuteS: NOON_MS / 1000, lastSeenS: NOON_MS / 1000 + 59, count: 3, requests: 2 },
      },
      expect.objectContaining({ code: 'unknown_session', field: '/events/*' }),
    ]);
  });

  test('are returned once; later counts of the same minute are returned later, with their sample', () => {
    const counts = new RejectionCounts();
    note(counts, [aReject()]);
    expect(counts.takeCounts(NOON_MS)).toHaveLength(1);
    expect(counts.takeCounts(NOON_MS)).toEqual([]);
    counts.add(NOON_MS, origin, [aReject()], () => expect.unreachable('it has a sample'));

    expect(counts.takeCounts(NOON_MS + MINUTE_MS)).toMatchObject([{ count: 1, requests: 1, part }]);
  });

  test('contain no token that is used as a field name, and only the start of a long name', () => {
    const counts = new RejectionCounts();
    note(counts, [
      aReject({ pointer: '/qlt_0123456789abcdef' }),
      aReject({ pointer: `/${'é'.repeat(100)}` }),
    ]);

    const [token, long] = counts.takeCounts(NOON_MS).map(({ field }) => field);
    expect(token).toBe('/********************');
    expect(long).toBe(`/${'é'.repeat(63)}`);
  });
});

describe('limits', () => {
  test('names beyond the limit of a minute are counted as other', () => {
    const counts = new RejectionCounts();
    expect(note(counts, names(MAX_FIELDS_PER_MINUTE + 5))).toBe(0);
    note(counts, [aReject({ pointer: '/one more', kind: 'ignored', code: 'field_unknown' })]);

    const rows = countsOf(counts.takeCounts(NOON_MS));
    expect(Object.keys(rows)).toHaveLength(MAX_FIELDS_PER_MINUTE + 2);
    expect(rows['rejected field_type other']).toBe(5);
    expect(rows['ignored field_unknown other']).toBe(1);
  });

  test('apply to the whole minute, also after the counts were returned, and end with the minute', () => {
    const counts = new RejectionCounts();
    note(counts, names(MAX_FIELDS_PER_MINUTE));
    counts.takeCounts(NOON_MS);
    note(counts, names(3, 'second'));
    expect(countsOf(counts.takeCounts(NOON_MS))).toEqual({ 'rejected field_type other': 3 });

    note(counts, names(3, 'second'), NOON_MS + MINUTE_MS);
    expect(counts.takeCounts(NOON_MS + MINUTE_MS).map(({ field }) => field)).toEqual(
      names(3, 'second').map(({ pointer }) => pointer),
    );
  });

  test('of one project do not affect other projects, also if ClickHouse is unavailable for long', () => {
    const counts = new RejectionCounts();
    let dropped = 0;
    for (let minute = 0; minute < 10; minute++) {
      dropped += note(counts, names(MAX_FIELDS_PER_MINUTE), NOON_MS + minute * MINUTE_MS);
    }
    expect(dropped).toBe(10 * MAX_FIELDS_PER_MINUTE - MAX_ROWS_PER_PROJECT);
    expect(note(counts, [aReject()], NOON_MS, 'other game')).toBe(0);

    const rows = counts.takeCounts(NOON_MS + 10 * MINUTE_MS);
    expect(rows.filter(({ projectId }) => projectId === 'game')).toHaveLength(MAX_ROWS_PER_PROJECT);
    expect(rows.filter(({ projectId }) => projectId === 'other game')).toMatchObject([{ count: 1 }]);
    expect(note(counts, names(MAX_FIELDS_PER_MINUTE), NOON_MS + 11 * MINUTE_MS)).toBe(0);
  });

  test('of one project include the rows for other names', () => {
    const counts = new RejectionCounts();
    const minutes = MAX_ROWS_PER_PROJECT / MAX_FIELDS_PER_MINUTE;
    for (let minute = 1; minute <= minutes; minute++)
      note(counts, names(MAX_FIELDS_PER_MINUTE), NOON_MS + minute * MINUTE_MS);
    expect(note(counts, names(1, 'beyond'), NOON_MS + minutes * MINUTE_MS)).toBe(1);
  });

  test('of all projects together apply too, and are free after the counts were returned', () => {
    const counts = new RejectionCounts();
    const flood = (nowMs: number): number => {
      let dropped = 0;
      for (let project = 0; project < 500; project++)
        dropped += note(counts, names(MAX_FIELDS_PER_MINUTE), nowMs, `game ${project}`);
      return dropped;
    };
    expect(flood(NOON_MS)).toBe(10_000);
    expect(counts.takeCounts(NOON_MS + MINUTE_MS)).toHaveLength(40_000);
    expect(flood(NOON_MS + MINUTE_MS)).toBe(10_000);
  });

  test('requests no part for a name that is counted as other', () => {
    const counts = new RejectionCounts();
    note(counts, names(MAX_FIELDS_PER_MINUTE));
    counts.add(NOON_MS, origin, names(1, 'beyond'), () => expect.unreachable('nobody looks at it'));

    expect(counts.takeCounts(NOON_MS).at(-1)).toMatchObject({
      field: 'other',
      endpoint: '',
      part: { sample: '', eventType: '' },
    });
  });
});
