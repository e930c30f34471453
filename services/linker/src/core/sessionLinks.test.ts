/**
 * Tests that a report gets exactly the maximum number of session links. The first events in the log must be linked, across all
 * owners and lookups.
 */
import { anEvent, anEventsAccepted, aReportLink } from '@questlog/schemas/fixtures/builders';
import type { ReportLink } from '@questlog/schemas/topics/reportLinks';
import { eventId } from '@questlog/schemas/uuid';
import { expect, test } from 'vitest';
import { Topology } from '../testing/topology.ts';
import { keyOf, newLink } from './decision.ts';
import { LINKER_BOUNDS, LinkerState, SessionLinkBudget } from './linkerState.ts';

const HOME = 0;
const HOUR_MS = 60 * 60_000;
const { tenantId, projectId } = anEventsAccepted();
const sessionId = '00000000-0000-4000-8000-000000000001';

function aTopology() {
  const topology = new Topology(1);
  topology.lanes.set(`${projectId}/${sessionId}`, HOME);
  const filedAtMs = topology.nowMs;
  /** Appends events that are in the report's window, whenever the append arrives. Returns their ids. */
  const send = (...tails: number[]): string[] =>
    tails.map((tail) => {
      const id = idOf(tail);
      const events = [anEvent({ id, sessionId, occurredAt: BigInt(filedAtMs) * 1000n })];
      const appendId = `00000000-0000-4000-8000-0000000000${20 + tail}`;
      const receivedAt = topology.nowMs;
      topology.appendEvents(HOME, anEventsAccepted({ appendId, tenantId, projectId, receivedAt, events }));
      return id;
    });
  const sendTogether = (...tails: number[]): void => {
    const occurredAt = BigInt(filedAtMs) * 1000n;
    const events = tails.map((tail) => anEvent({ id: idOf(tail), sessionId, occurredAt }));
    const receivedAt = topology.nowMs;
    topology.appendEvents(HOME, anEventsAccepted({ tenantId, projectId, receivedAt, events }));
  };
  const idOf = (tail: number): string => eventId(filedAtMs, 0, Buffer.alloc(8, tail));
  const file = (of: Partial<ReportLink>): ReportLink => {
    const report = aReportLink({
      tenantId,
      projectId,
      sessionId,
      sessionLane: 0,
      receivedAt: filedAtMs,
      ...of,
    });
    topology.appendReport(report);
    return report;
  };
  const linked = (): string[] => topology.links().map(({ event }) => event.id);
  return { topology, send, sendTogether, file, idOf, linked };
}

test('events before and after the report count together, also with a new owner and after the report was closed', () => {
  const { topology, send, file, linked } = aTopology();
  const first = send(1, 2);
  file({ maxSessionLinks: 3 });
  topology.settle();
  expect(linked()).toEqual(first);

  const third = send(3);
  topology.settle();
  topology.crash(HOME);
  send(4);
  topology.settle();
  topology.advance(50 * HOUR_MS);
  topology.settle();
  send(5);
  topology.settle();
  expect(linked()).toEqual([...first, ...third]);
});

test('a report that was closed below its maximum gets further links up to the maximum', () => {
  const { topology, send, file, linked } = aTopology();
  const early = send(1);
  file({ maxSessionLinks: 2 });
  topology.settle();
  topology.advance(50 * HOUR_MS);
  topology.settle();
  const [late = ''] = send(2, 3);
  topology.settle();
  expect(linked()).toEqual([...early, late]);
});

test('deferred links count after their lookup is answered', () => {
  const { topology, send, file, linked } = aTopology();
  const [first = ''] = send(1);
  topology.consume(HOME, 'events');
  topology.commit(HOME);
  file({ maxSessionLinks: 2 });
  topology.consume(HOME, 'reports');
  for (const topic of ['events', 'reports'] as const) topology.project(topic, HOME, 1);
  // The lookup is answered, but the answer is not applied yet. New events are therefore deferred.
  for (let i = 0; i < 5; i++) topology.lookUp(HOME);
  const [second = ''] = send(2, 3);
  topology.consume(HOME, 'events');
  topology.consume(HOME, 'events');
  topology.settle();
  expect(linked()).toEqual([first, second]);
});

test('named events are linked in addition and do not count', () => {
  for (const isBefore of [true, false]) {
    const { topology, send, file, idOf, linked } = aTopology();
    const steps = [() => send(1, 2, 3, 4), () => file({ maxSessionLinks: 1, eventIds: [idOf(1), idOf(3)] })];
    for (const step of isBefore ? steps : steps.toReversed()) {
      step();
      topology.settle();
    }
    expect(linked()).toEqual([idOf(1), idOf(2), idOf(3)]);
  }
});

test('events of one request count individually, before and after the report', () => {
  for (const isBefore of [true, false]) {
    const { topology, sendTogether, file, linked } = aTopology();
    const steps = [() => sendTogether(1, 2, 3), () => file({ maxSessionLinks: 2 })];
    for (const step of isBefore ? steps : steps.toReversed()) {
      step();
      topology.settle();
    }
    expect(linked()).toHaveLength(2);
  }
});

test('links from the lookup of a retried report count once, in addition to links that the state had not counted', () => {
  const { state, report, key, link } = aTracked({ maxSessionLinks: 3 });
  const counted = new SessionLinkBudget(state, new Map([[key, 1]]));
  expect(counted.take(key, report)).toBe(true);
  state.evolve(counted.changes());
  link('linked');
  expect(state.drain().map((entry) => entry.key)).toEqual([`report/${key}`, `sessionLinks/${key}`]);
  expect([state.sessionLinks.get(key), state.hasLinksLeft(key, report)]).toEqual([2, true]);
});

test('the state keeps the link count of a tracked report, also if a lookup sees fewer links', () => {
  const { state, report, key, track, link } = aTracked({ maxSessionLinks: 3 });
  for (const kind of ['linked', 'linked', 'unlinked'] as const) link(kind);
  expect(state.sessionLinks.get(key)).toBe(2);
  // The lookup saw fewer links or the same number of links, or there is no lookup.
  for (const told of [new Map([[key, 1]]), new Map([[key, 2]]), undefined]) {
    const counted = new SessionLinkBudget(state, told);
    expect(counted.changes()).toEqual([]);
    expect([counted.take(key, report), counted.take(key, report)]).toEqual([true, false]);
  }
  state.drain();
  state.evolve([{ entry: 'sessionLinks', key, atLeast: 1 }]);
  track();
  expect(state.drain().map((entry) => entry.key)).toEqual([`report/${key}`]);
  expect(state.sessionLinks.get(key)).toBe(2);
  state.evolve([{ entry: 'report', key, value: null }]);
  link('linked');
  expect(state.drain()).toEqual([
    { key: `report/${key}`, entry: null },
    { key: `sessionLinks/${key}`, entry: null },
  ]);
});

function aTracked(of: Partial<ReportLink>) {
  const state = new LinkerState(0, 1, LINKER_BOUNDS);
  const report = aReportLink(of);
  const key = keyOf(report);
  const track = (): void => {
    const value = { record: report, offset: 0, phase: 'open', askAt: null, closesAt: 1 } as const;
    state.evolve([{ entry: 'report', key, value }]);
  };
  const link = (kind: 'linked' | 'unlinked'): void =>
    state.countLink(newLink(kind, report, { ...anEvent(), receivedAt: 1 }, 'session', 1));
  track();
  return { state, report, key, track, link };
}
