/** Tests which reports and retractions take effect, and their links. */
import { randomUUID } from 'node:crypto';
import { aReportLink } from '@questlog/schemas/fixtures/builders';
import type { StoredReport } from '@questlog/schemas/tables/reports';
import { LINK_VERSIONS } from '@questlog/schemas/topics/linkedEvents';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { expect, test } from 'vitest';
import { pendingLinks, retractionOf, sortReports, unresolvedLinks } from './planReports.ts';

const SOURCE = { logId: randomUUID(), partition: 2 };
const [A, B] = [randomUUID(), randomUUID()];
const REPORT = aReportLink({ inlineEventIds: [A], eventIds: [A, B] });
const FILED: StoredReport = { filed: REPORT, position: { ...SOURCE, offset: 5 }, retractedAt: null };

const noted = (offset: number, of: Partial<ReportLink>) => ({ offset, message: { ...REPORT, ...of } });
const retracted = (offset: number) => noted(offset, { kind: 'retracted', receivedAt: offset });

test('reports and retractions count only in the home partition and not as copies; notices of the linker count anywhere', () => {
  const kinds = ['filed', 'retracted', 'retried', 'unresolved'] as const;
  const records = kinds.flatMap((kind, i) => [
    noted(2 * i, { kind }),
    noted(2 * i + 1, { kind, isForwarded: true }),
  ]);
  const offsets = (isAtHome: boolean) => {
    const { filed, later, ignored } = sortReports(records, () => isAtHome);
    return [filed, later, ignored].map((bucket) => bucket.map(({ offset }) => offset));
  };
  expect(offsets(true)).toEqual([[0], [2, 6, 7], [1, 3, 4, 5]]);
  expect(offsets(false)).toEqual([[], [6, 7], [0, 1, 2, 3, 4, 5]]);
});

test('the first retraction after the report counts', () => {
  const notes = [retracted(3), retracted(7), retracted(9)];
  expect(retractionOf(FILED, notes, SOURCE)).toEqual({ ...FILED, retractedAt: 7 });
  expect(
    retractionOf(FILED, [retracted(3), retracted(5), noted(6, { kind: 'retried' })], SOURCE),
  ).toBeUndefined();
  expect(retractionOf({ ...FILED, retractedAt: 6 }, notes, SOURCE)).toBeUndefined();
});

test('a report of an earlier log can be retracted in this log; a report of another partition cannot', () => {
  const elsewhere = (of: Partial<StoredReport['position']>) => ({
    ...FILED,
    position: { ...FILED.position, ...of },
  });
  const notes = [retracted(3)];
  expect(retractionOf(elsewhere({ logId: randomUUID() }), notes, SOURCE)?.retractedAt).toBe(3);
  expect(retractionOf(elsewhere({ partition: 1, offset: 0 }), notes, SOURCE)).toBeUndefined();
});

test('an event that is both inline and named is an inline link, pending and unresolved', () => {
  const sources = (links: readonly { eventId: string; source: string }[]) =>
    links.map(({ eventId, source }) => [eventId, source]);
  expect(sources(pendingLinks(noted(5, {})))).toEqual([
    [A, 'inline'],
    [B, 'named'],
  ]);
  const { tenantId, projectId, reportId, receivedAt } = REPORT;
  const row = { tenantId, projectId, reportId, changedAt: receivedAt };
  expect(pendingLinks(noted(5, {}))[0]).toEqual({
    ...row,
    ...{ eventId: A, state: 'pending', source: 'inline', version: LINK_VERSIONS.pending, offset: 5 },
  });
  const notice = noted(8, { kind: 'unresolved', inlineEventIds: [], eventIds: [B, A] });
  expect(sources(unresolvedLinks([retracted(7), notice], FILED))).toEqual([
    [B, 'named'],
    [A, 'inline'],
  ]);
  expect(unresolvedLinks([notice], undefined)[0]).toMatchObject({
    state: 'unresolved',
    version: LINK_VERSIONS.unresolved,
  });
  expect(sources(unresolvedLinks([notice], undefined))).toEqual([
    [B, 'named'],
    [A, 'named'],
  ]);
});
