/** Tests suspended lookups. Each link must be made once, in any order of the answers. */
import { anEvent, anEventsAccepted, aReportLink } from '@questlog/schemas/fixtures/builders';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { eventId } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { Topology } from '../testing/topology.ts';

const SIX_MINUTES_MS = 6 * 60_000;
const HOME = 0;
const { tenantId, projectId } = anEventsAccepted();
const sessionId = '00000000-0000-4000-8000-000000000001';

function aTopology() {
  const topology = new Topology(1);
  const file = (last: number): ReportLink => {
    const reportId = `00000000-0000-4000-8000-00000000001${last}`;
    const report = aReportLink({ tenantId, projectId, reportId, sessionId, sessionLane: 0 });
    topology.appendReport({ ...report, receivedAt: topology.nowMs, occurredAt: null });
    return report;
  };
  /** Appends an event inside the windows of the reports. Returns the id of the event. */
  const send = (tail: number, ageMs: number): string => {
    const id = eventId(topology.nowMs, 0, Buffer.alloc(8, tail));
    const occurredAt = BigInt(topology.nowMs - ageMs) * 1000n;
    const events = [anEvent({ id, sessionId, occurredAt })];
    const appendId = `00000000-0000-4000-8000-00000000002${tail}`;
    const receivedAt = topology.nowMs;
    topology.appendEvents(HOME, anEventsAccepted({ appendId, tenantId, projectId, receivedAt, events }));
    return id;
  };
  const turns = (count: number): void => {
    for (let i = 0; i < count; i++) topology.lookUp(HOME);
  };
  topology.lanes.set(`${projectId}/${sessionId}`, 0);
  return { topology, file, send, turns };
}

const told = (topology: Topology): string[] =>
  topology.links().map(({ reportId, event }) => `${reportId} ${event.id}`);

test('a late event that a suspended lookup defers is linked only by that lookup', () => {
  const { topology, file, send, turns } = aTopology();
  const report = file(1);
  topology.consume(HOME, 'reports');
  topology.project('reports', HOME, 1);
  turns(3);
  const first = send(1, 0);
  topology.consume(HOME, 'events');
  turns(1);
  topology.suspend(HOME);
  const held = send(2, SIX_MINUTES_MS);
  topology.settle();
  expect(told(topology)).toEqual([`${report.reportId} ${first}`, `${report.reportId} ${held}`]);
});

test('a suspended lookup sees the links of lookups that overtook it', () => {
  const { topology, file, send, turns } = aTopology();
  const before = file(1);
  topology.settle();
  const late = send(1, SIX_MINUTES_MS);
  topology.consume(HOME, 'events');
  const after = file(2);
  // The last step starts the lookup of the late event. This lookup waits for the second report.
  turns(1);
  topology.suspend(HOME);
  topology.consume(HOME, 'reports');
  topology.project('reports', HOME, 9);
  topology.project('events', HOME, 9);
  topology.project('links', HOME, 9);
  // The second report is checked and looked up. Its links are not projected yet when the first lookup continues.
  turns(3 + 3 + 2);
  topology.settle();
  expect(told(topology)).toEqual([`${before.reportId} ${late}`, `${after.reportId} ${late}`]);
});
