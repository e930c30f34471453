/** Tests that the document and the service accept the same combinations of ids in a report. */
import { randomUUID } from 'node:crypto';
import { ShownReportInput } from '@questlog/schemas/http/operations/reports';
import { Compile } from 'typebox/schema';
import { expect, test } from 'vitest';
import { readReport } from '../../reports/core/readReport.ts';

const documented = Compile(ShownReportInput);
const [ID, REQUEST] = [randomUUID(), randomUUID()];

test.each([
  [{ id: ID, clientRequestId: REQUEST }, false],
  [{ id: ID, clientRequestId: ID }, false],
  [{ id: ID }, true],
  [{ clientRequestId: REQUEST }, true],
  // Plugins of games send empty strings for absent ids.
  [{ id: '', clientRequestId: REQUEST }, true],
  [{ id: ID, clientRequestId: '' }, true],
  [{ id: '', clientRequestId: '' }, true],
  [{ id: null, clientRequestId: REQUEST }, true],
  [{ id: ID, clientRequestId: null }, true],
])('the document and the service agree on a first report with %j: %s', (ids, isTaken) => {
  const body = { report: { title: 'Stuck' }, ...ids };
  const { problems } = readReport(Buffer.from(JSON.stringify(body)), 'B');
  expect([problems.length === 0, documented.Check(body)]).toEqual([isTaken, isTaken]);
});
