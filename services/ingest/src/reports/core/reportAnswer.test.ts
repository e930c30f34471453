/** Tests how responses show a report: its texts, the bytes of its context, its links, and its state. */
import { aReportLink } from '@questlog/schemas/fixtures/builders';
import type { ReportContent } from '@questlog/schemas/topics/reportLinks';
import { eventId } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { type AnsweredReport, createdReport, reportObject, withExpired } from './reportAnswer.ts';

const [REPORT, SESSION, BUILD, EVENT] = ['1', '2', '3', '4'].map(
  (digit) => `${digit.repeat(8)}-0000-7000-8000-000000000000`,
) as [string, string, string, string];

const filed = aReportLink({
  ...{ reportId: REPORT, sessionId: SESSION, buildId: BUILD, windowBeforeMs: 1_000, windowAfterMs: 20 },
  ...{ receivedAt: Date.UTC(2026, 10, 22, 12), occurredAt: BigInt(Date.UTC(2026, 10, 22, 11)) * 1_000n + 7n },
});

const report: AnsweredReport = {
  filed,
  isRetracted: false,
  links: [{ eventId: EVENT, state: 'linked', source: 'named' }],
  linksTruncated: false,
  truncated: false,
};

const head = {
  ...{ id: REPORT, reportId: REPORT, status: 'filed', sessionId: SESSION, buildId: BUILD },
  ...{ occurredAt: '2026-11-22T11:00:00.000007Z', receivedAt: '2026-11-22T12:00:00.000Z' },
  ...{ window: { beforeMs: 1_000, afterMs: 20 }, state: 'filed' },
};
const tail = { links: report.links, linksTruncated: false, truncated: false };

const texts = {
  ...{ title: 'Stuck "in" wall', description: null, severity: 'high', reporterType: 'player' },
  ...{ sourceChannel: 'api', fingerprint: 'wall' },
};
const content: ReportContent = {
  ...texts,
  namedSessionId: SESSION,
  context: Buffer.from('{"big": 12345678901234567890, "big": 1.0}'),
  attachments: [
    {
      ...{ uploadId: BUILD, attachmentType: 'screenshot', fileName: 'a.png', mimeType: null },
      ...{ sizeBytes: 5, state: 'stored' },
    },
  ],
};

const NOTHING_MORE = { eventIdsTruncated: false, attachmentsMissing: [] };

test('shows the report as it was filed, with the exact bytes of the context', () => {
  const sequence = { missing: [[2, 3]] };
  const shown = reportObject(report, content, sequence).toString();
  expect(shown).toContain('"context":{"big": 12345678901234567890, "big": 1.0},');
  expect(JSON.parse(shown)).toEqual({
    ...head,
    report: texts,
    context: expect.anything(),
    attachments: content.attachments,
    sequence,
    ...tail,
  });
});

test('shows null for absent texts, context, or content', () => {
  const plain = JSON.parse(reportObject(report, { ...content, title: null, context: null }, null).toString());
  expect(plain).toMatchObject({
    report: null,
    context: null,
    attachments: content.attachments,
    sequence: null,
  });
  const bare = JSON.parse(reportObject(report, null, null).toString());
  expect(bare).toEqual({ ...head, report: null, context: null, attachments: [], sequence: null, ...tail });
});

test('shows that a report was retracted, and uses the time of the request for a report without a time', () => {
  const retracted = { ...report, isRetracted: true, filed: { ...filed, occurredAt: null } };
  expect(JSON.parse(reportObject(retracted, null, null).toString())).toMatchObject({
    ...{ status: 'retracted', state: 'retracted', occurredAt: '2026-11-22T12:00:00.000Z' },
  });
});

test('the response to a request has its events, and names dropped data only if there is any', () => {
  const event = {
    ...{ id: EVENT, sessionId: SESSION, buildId: null, eventType: 'error', occurredAt: 0n, sequence: null },
    ...{ payload: Buffer.from('{}'), reportIds: [REPORT], overQuota: undefined },
  };
  const plain = JSON.parse(createdReport(report, [event], NOTHING_MORE).toString());
  expect(plain).toEqual({ ...head, events: [expect.objectContaining({ id: EVENT })], ...tail });
  const more = { idempotent: true, eventIdsTruncated: true, attachmentsMissing: [BUILD] };
  const told = JSON.parse(createdReport({ ...report, linksTruncated: true }, [], more).toString());
  expect(told).toEqual({ ...head, ...more, events: [], ...tail, linksTruncated: true });
  const again = JSON.parse(createdReport(report, [], { ...NOTHING_MORE, idempotent: false }).toString());
  expect(again).not.toHaveProperty('idempotent');
});

test('a stored file from before the expiry of uploads is expired; a file that was missing stays missing', () => {
  const file = (state: 'stored' | 'missing', receivedMs: number) => ({
    ...{ uploadId: eventId(receivedMs, 0, Buffer.alloc(8)), attachmentType: 'other', fileName: 'a.txt' },
    ...{ mimeType: null, sizeBytes: 1, state },
  });
  const attachments = [file('stored', 1_000), file('stored', 2_000), file('missing', 1_000)];
  const shown = withExpired(
    { ...texts, namedSessionId: null, context: null, attachments },
    { uploads: 2_000 },
  );
  expect(shown.attachments.map(({ state }) => state)).toEqual(['expired', 'stored', 'missing']);
});
