/** Tests that a seed always gives the same game, and that a client could have sent the game. */
import { createHash } from 'node:crypto';
import { EVENT_INPUT } from '@questlog/schemas/http/event';
import { ReportInput } from '@questlog/schemas/http/report';
import { SessionInput } from '@questlog/schemas/http/session';
import { Compile } from 'typebox/compile';
import { beforeAll, expect, test } from 'vitest';
import { type GameRequest, mergeRequests, type Visit, visitsOf } from './game.ts';

const FROM = Date.UTC(2026, 10, 1);
const TEN_DAYS = { seed: 7, players: 40, fromMs: FROM, toMs: FROM + 10 * 86_400_000 };
let visits: Visit[];
let requests: GameRequest[];

beforeAll(() => {
  visits = [...visitsOf(TEN_DAYS)];
  requests = visits.flatMap((visit) => visit.requests);
});

test('a seed gives the same game in every version, so that two versions can be compared', () => {
  const live = [...visitsOf({ ...TEN_DAYS, players: 120, toMs: FROM + 300_000 })];
  const digests = [visits, live].map((visits) =>
    createHash('sha256').update(JSON.stringify(visits)).digest('hex'),
  );
  // After an intended change of the game, update the digests in this test and the figures of the data guide.
  expect(digests).toEqual([
    '731c1cd5278211481e684e37845f729ff7a85436b329672471bdb066b29761d4',
    'fae9e614ee055ca9366987b6229c8da1ecbb808a007ce91955f5dd9d51bf3238',
  ]);
});

test('the same seed gives the same game, and another seed another game', () => {
  expect([...visitsOf(TEN_DAYS)]).toEqual(visits);
  expect([...visitsOf({ ...TEN_DAYS, seed: 8 })]).not.toEqual(visits);
});

test('visits and their requests are in the order of their times and within the time range', () => {
  const times = visits.map(({ atMs }) => atMs);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  for (const { atMs, requests: own } of visits) {
    const sent = [atMs, ...own.map((request) => request.atMs)];
    expect(sent).toEqual(sent.toSorted((a, b) => a - b));
    expect(atMs).toBeGreaterThanOrEqual(FROM);
    expect(atMs).toBeLessThan(TEN_DAYS.toMs);
  }
});

test('sessions, events, and reports are valid, and requests are within the limits', () => {
  const [session, event, report] = [SessionInput, EVENT_INPUT.A, ReportInput].map((schema) =>
    Compile(schema),
  );
  for (const visit of visits) expect(session?.Errors(visit.session)).toEqual([]);
  for (const { body, events } of requests) {
    if (Array.isArray(body)) {
      expect(body.length).toBe(events);
      expect(events).toBeLessThanOrEqual(200);
      for (const element of body) expect(event?.Errors(element)).toEqual([]);
    } else expect(report?.Errors(body)).toEqual([]);
  }
});

test('the events of a session are numbered from 1 without a gap', () => {
  for (const { requests: own } of visits) {
    const numbers = own
      .flatMap(({ body }) => (Array.isArray(body) ? body : []))
      .map(({ sequence }) => sequence);
    expect(numbers).toEqual(numbers.map((_, n) => n + 1));
  }
});

test('merging keeps the events, reports, and their order in a tenth of the requests, within the limits', () => {
  const contents = (all: readonly GameRequest[]) =>
    all.flatMap(({ id, body }) => (Array.isArray(body) ? body : [{ id, body }]));
  const fewer = visits.map((visit) => mergeRequests(visit.requests));
  expect(fewer.map(contents)).toEqual(visits.map((visit) => contents(visit.requests)));
  const all = fewer.flat();
  const events = all.reduce((sum, request) => sum + request.events, 0);
  expect(all.length).toBeLessThan(requests.length / 10);
  expect(all.length).toBeLessThan(events / 40);
  for (const { body, events: own } of all) expect(own).toBe(Array.isArray(body) ? body.length : 1);
  expect(Math.max(...all.map((request) => request.events))).toBeLessThanOrEqual(200);
  const lost = all.filter(({ isAnswerLost }) => isAnswerLost).length / all.length;
  expect(lost).toBeGreaterThan(0.01);
  expect(lost).toBeLessThan(0.1);
});

test('merging keeps a report between its events, and splits large events into several requests', () => {
  const id = 'createEvents';
  const large = { atMs: 1, id, body: ['x'.repeat(400_000)], events: 1, isAnswerLost: false } as const;
  const report = { ...large, id: 'createReport', body: {} } as const;
  const sizes = mergeRequests([large, large, large, report, large]).map(
    ({ body }) => Object.keys(body).length,
  );
  expect(sizes).toEqual([2, 1, 0, 1]);
});

test('merging fills a request up to the limit of events', () => {
  const id = 'createEvents';
  const many = (events: number): GameRequest => ({
    ...{ atMs: 1, id, events, isAnswerLost: false },
    body: Array.from({ length: events }, () => 'x'),
  });
  const counts = (...events: number[]) => mergeRequests(events.map(many)).map((request) => request.events);
  expect([counts(100, 100), counts(100, 101)]).toEqual([[200], [100, 101]]);
});

test('players have exactly one visit in a live game, but not in a whole day', () => {
  expect([...visitsOf({ ...TEN_DAYS, toMs: FROM + 86_399_999 })]).toHaveLength(TEN_DAYS.players);
  expect([...visitsOf({ ...TEN_DAYS, toMs: FROM + 86_400_000 })]).not.toHaveLength(TEN_DAYS.players);
});

test('a game has reports, lost responses, wrong clocks, offline bursts, and crash logs', () => {
  expect(requests.some(({ id }) => id === 'createReport')).toBe(true);
  expect(requests.some(({ isAnswerLost }) => isAnswerLost)).toBe(true);
  expect(
    visits.some(({ atMs, session }) => Math.abs(Date.parse(`${session['startedAt']}`) - atMs) > 60_000),
  ).toBe(true);
  expect(requests.some(({ events }) => events > 100)).toBe(true);
  const logs = requests.flatMap(({ logLines }) => (logLines === undefined ? [] : [logLines]));
  expect(logs.length).toBeGreaterThan(0);
  expect(logs.every((lines) => lines.at(-1)?.includes('SIGSEGV'))).toBe(true);
});

test('a live game ends within its time range', () => {
  const toMs = FROM + 300_000;
  const ends = [...visitsOf({ ...TEN_DAYS, toMs })].flatMap(({ requests: own }) =>
    own.filter(({ id }) => id === 'createEvents').map(({ atMs }) => atMs),
  );
  expect(Math.max(...ends)).toBeLessThan(toMs);
});
