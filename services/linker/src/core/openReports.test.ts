/** Which partition matches a report: each pair of a report and an event has one, or a link would be made twice or never. */
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

test('a report is found by what the partition decides about, until it is let go', () => {
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
])('a session in lane %s is the partition’s that is %i behind home', (sessionLane, behind) => {
  const record = aReportLink({ tenantId: TENANT, sessionId: SESSION, sessionLane });
  expect([...ownersOf(record, PARTITIONS)]).toEqual([(HOME + behind) % PARTITIONS]);
});

test('a report that gets no links by its session is not among those of its session', () => {
  const open = new OpenReports(HOME, PARTITIONS);
  open.add('key', aReportLink({ tenantId: TENANT, sessionId: SESSION, sessionLane: 0, maxSessionLinks: 0 }));
  expect([[...open.reportsOfSession(SESSION)], open.reports]).toEqual([[], 1]);
});
