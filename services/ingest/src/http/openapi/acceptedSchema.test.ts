/** What the document says of a report's ids is what is taken: a client that believes it must not hold back what would be kept. */
import { randomUUID } from 'node:crypto';
import { ReportInput } from '@questlog/schemas/http/report';
import { Compile } from 'typebox/schema';
import { expect, test } from 'vitest';
import { readReport } from '../../reports/core/readReport.ts';
import { acceptedSchema, REPORT_RULES } from './acceptedSchema.ts';

const documented = Compile({ ...acceptedSchema(ReportInput, true), ...REPORT_RULES });
const [ID, REQUEST] = [randomUUID(), randomUUID()];

test.each([
  [{ id: ID, clientRequestId: REQUEST }, false],
  [{ id: ID, clientRequestId: ID }, false],
  [{ id: ID }, true],
  [{ clientRequestId: REQUEST }, true],
  // As plugins send what they do not have.
  [{ id: '', clientRequestId: REQUEST }, true],
  [{ id: ID, clientRequestId: '' }, true],
  [{ id: '', clientRequestId: '' }, true],
  [{ id: null, clientRequestId: REQUEST }, true],
  [{ id: ID, clientRequestId: null }, true],
])('of a first report with %j both say: %s', (ids, isTaken) => {
  const body = { report: { title: 'Stuck' }, ...ids };
  const { problems } = readReport(Buffer.from(JSON.stringify(body)), 'B');
  expect([problems.length === 0, documented.Check(body)]).toEqual([isTaken, isTaken]);
});
