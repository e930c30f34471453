/**
 * Tests which partition matches a report. Each pair of a report and an event needs exactly one owner, because the link must be
 * made once.
 */
import { randomUUID } from 'node:crypto';
import { aReportLink } from '@questlog/schemas/fixtures/builders';
import { partitionOf } from '@questlog/schemas/partition';
import { eventId } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { OpenReports } from './openReports.ts';
import { ownersOf } from './ownership.ts';

const PARTITIONS = 4;
const [TENANT, SESSION] = [randomUUID(), randomUUID()];
const HOME = partitionOf(TENANT, 0, PARTITIONS);
const [HERE, THERE] = [0, 1].map((lane) => eventId(1, lane, Buffer.alloc(8)));

test('finds a report by the events and the session that the partition owns, until the report is removed', () => {
  const record = aReportLink({
    tenantId: TENANT,
    sessionId: SESSION,
    sessionLane: 1,
    eventIds: [HERE ?? '', THERE ?? ''],
  });
  const foundIn = (partition: number) => {
    const open = new OpenReports(partition, PARTITIONS);
    const found = () => [
      ...[
        open.reportsOfSession(SESSION),
        open.reportsNaming(HERE ?? ''),
        open.reportsNaming(THERE ?? ''),
      ].map((those) => [...those].length),
      ...[open.reports, open.eventIds],
    ];
    open.add('key', record);
    const before = found();
    open.remove('key');
    expect(found()).toEqual([0, 0, 0, 0, 0]);
    return before;
  };
  expect(foundIn(HOME)).toEqual([0, 1, 0, 1, 1]);
  expect(foundIn((HOME + 1) % PARTITIONS)).toEqual([1, 0, 1, 1, 1]);
});

test.each([
  [0, 0],
  [1, 1],
  [null, 0],
])('a session in lane %s belongs to the partition %i after the home partition', (sessionLane, behind) => {
  const record = aReportLink({ tenantId: TENANT, sessionId: SESSION, sessionLane });
  expect([...ownersOf(record, PARTITIONS)]).toEqual([(HOME + behind) % PARTITIONS]);
});

test('a report with a maximum of 0 session links is not found by its session', () => {
  const open = new OpenReports(HOME, PARTITIONS);
  open.add('key', aReportLink({ tenantId: TENANT, sessionId: SESSION, sessionLane: 0, maxSessionLinks: 0 }));
  expect([[...open.reportsOfSession(SESSION)], open.reports]).toEqual([[], 1]);
});
