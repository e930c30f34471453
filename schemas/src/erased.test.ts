import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { anErasure as aBuiltErasure, anEventsRecord, aReportLink } from '../fixtures/builders.ts';
import { ErasedData } from './erased.ts';
import type { Erasure } from './topics/directoryEntry.ts';

const [TENANT, PROJECT, SESSION] = [randomUUID(), randomUUID(), randomUUID()];
const anErasure = (of: Partial<Erasure> = {}): Erasure => aBuiltErasure({ tenantId: TENANT, ...of });

function erasedBy(...erasures: Erasure[]): ErasedData {
  const erased = new ErasedData();
  for (const erasure of erasures) erased.add(erasure);
  return erased;
}

const OWN = { tenantId: TENANT, projectId: PROJECT, sessionId: SESSION };
const sessions = [{ projectId: PROJECT, ids: [SESSION] }];

test('an erased session stays erased for later records, only in its project and tenant', () => {
  const erasure = anErasure({ projectId: PROJECT, sessions });
  const erased = erasedBy(erasure);
  for (const receivedAt of [0, 999, 1_000, 1e15])
    expect(erased.erasureOf({ ...OWN, receivedAt })).toBe(erasure.id);
  for (const other of [
    { tenantId: randomUUID() },
    { projectId: randomUUID() },
    { sessionId: randomUUID() },
    { sessionId: null },
  ])
    expect(erased.erasureOf({ ...OWN, ...other, receivedAt: 0 })).toBeUndefined();
  expect(erased.hasSession(TENANT, PROJECT, SESSION)).toBe(true);
  expect(erased.hasSession(TENANT, randomUUID(), SESSION)).toBe(false);
});

test('a project or tenant is erased up to the time of the request, and no other project or tenant', () => {
  const [ofProject, ofTenant] = [anErasure({ projectId: PROJECT, requestedAt: 500 }), anErasure()];
  const erased = erasedBy(ofTenant, ofProject);
  const by = (receivedAt: number, of = {}) => erased.erasureOf({ ...OWN, receivedAt, ...of });
  expect([by(499), by(500), by(999), by(1_000)]).toEqual([ofProject.id, ofTenant.id, ofTenant.id, undefined]);
  expect(by(0, { projectId: randomUUID(), sessionId: null })).toBe(ofTenant.id);
  expect(by(0, { tenantId: randomUUID() })).toBeUndefined();
});

test('if several erasures cover the data, the earliest request counts, in any order of arrival', () => {
  const first = anErasure({ requestedAt: 10, projectId: PROJECT, sessions });
  const second = anErasure({ requestedAt: 20, projectId: PROJECT, sessions });
  const whole = anErasure({ requestedAt: 15 });
  for (const order of [
    [first, second, whole],
    [whole, second, first],
  ])
    expect(erasedBy(...order).erasureOf({ ...OWN, receivedAt: 5 })).toBe(first.id);
});

test('isHiding is true until the last erasure of the project or its tenant has hidden the rows', () => {
  const [first, last] = [anErasure({ projectId: PROJECT, requestedAt: 10 }), anErasure({ requestedAt: 20 })];
  const erased = erasedBy(anErasure({ projectId: PROJECT, sessions }));
  const isHidingAfter = (of: Erasure, hiddenAt: number | null) => {
    erased.add({ ...of, hiddenAt });
    return erased.isHiding(TENANT, PROJECT);
  };
  expect(erased.isHiding(TENANT, PROJECT)).toBe(false);
  expect([isHidingAfter(first, null), isHidingAfter(first, 11), isHidingAfter(first, null)]).toEqual([
    true,
    false,
    true,
  ]);
  expect([isHidingAfter(last, null), isHidingAfter(first, 11), isHidingAfter(last, 21)]).toEqual([
    true,
    true,
    false,
  ]);
  expect([isHidingAfter(first, null), isHidingAfter(last, null)]).toEqual([false, true]);
  expect([erased.isHiding(TENANT, randomUUID()), erased.isHiding(randomUUID(), PROJECT)]).toEqual([
    true,
    false,
  ]);
});

test('isDeleting is true from the first deletion until a later or the same erasure has hidden the rows, also after a failure', () => {
  const [first, last] = [anErasure({ projectId: PROJECT, requestedAt: 10 }), anErasure({ requestedAt: 20 })];
  const erased = erasedBy(anErasure({ projectId: PROJECT, sessions, state: 'running' }));
  const after = (of: Erasure, changed: Partial<Erasure>) => {
    erased.add({ ...of, ...changed });
    return [erased.isHiding(TENANT, PROJECT), erased.isDeleting(TENANT, PROJECT)];
  };
  expect(after(first, { state: 'queued' })).toEqual([true, false]);
  expect(after(first, { state: 'running' })).toEqual([true, true]);
  expect(after(first, { state: 'failed' })).toEqual([true, true]);
  expect(after(last, { state: 'queued' })).toEqual([true, true]);
  expect(after(last, { state: 'running', hiddenAt: 21 })).toEqual([false, false]);
  expect(after(anErasure({ projectId: PROJECT, requestedAt: 30 }), {})).toEqual([true, false]);
});

test('removes only erased events, and returns the same record if no event is erased', () => {
  const record = anEventsRecord({
    tenantId: TENANT,
    projectId: PROJECT,
    events: [{ sessionId: SESSION }, {}],
  });
  expect(erasedBy().visibleEvents(record)).toBe(record);
  expect(erasedBy(anErasure({ tenantId: randomUUID() })).visibleEvents(record)).toBe(record);
  const message = record.message();
  const left = erasedBy(anErasure({ projectId: PROJECT, sessions })).visibleEvents(record);
  expect(left.message()).toEqual({ ...message, events: [message.events[1]] });
});

test('a report is erased by its session, by its time, or by its id', () => {
  const report = aReportLink({ tenantId: TENANT, projectId: PROJECT, sessionId: SESSION, receivedAt: 2_000 });
  const other = { ...report, sessionId: randomUUID() };
  const bySession = erasedBy(anErasure({ projectId: PROJECT, sessions }));
  expect([report, other].map((one) => bySession.isVisibleEntity(one))).toEqual([false, true]);
  const found = [{ projectId: PROJECT, ids: [report.reportId] }];
  expect(erasedBy(anErasure({ sessions: [], reports: found })).isVisibleEntity(other)).toBe(false);
  const byTime = erasedBy(anErasure({ projectId: PROJECT, requestedAt: 2_000 }));
  expect(byTime.isVisibleEntity(report)).toBe(true);
  expect(byTime.isVisibleEntity({ ...report, receivedAt: 1_999 })).toBe(false);
  // A notice of the linker can refer to a report that was filed after the erasure.
  expect(byTime.isVisibleEntity({ ...report, ...{ kind: 'unresolved' } })).toBe(true);
});

test('counts the erased ids, and increases `changes` only if more is erased', () => {
  const erasure = anErasure({ projectId: PROJECT, sessions });
  const erased = erasedBy(erasure);
  const { changes } = erased;
  for (const known of [erasure, { ...erasure, state: 'running' as const }]) erased.add(known);
  expect([erased.ids, erased.changes]).toEqual([1, changes]);
  erased.add({ ...erasure, reports: [{ projectId: PROJECT, ids: [randomUUID(), randomUUID()] }] });
  expect(erased.ids).toBe(3);
  expect(erased.changes).toBeGreaterThan(changes);
  const project = anErasure({ projectId: PROJECT });
  erased.add(project);
  const after = erased.changes;
  erased.add({ ...project, state: 'done' });
  expect(erased.changes).toBe(after);
});
