/**
 * Mutants that no test kills, identified by a part of their line. Each group has its reason. A run fails if a survivor is not
 * listed, or if a listed mutant is killed.
 */
import { ALWAYS_DEFINED, NO_ENTRY, type Survivors, sharing } from './reasons.ts';
import { CONSUMER_SURVIVORS } from './survivorsOfConsumer.ts';
import { INGEST_SURVIVORS } from './survivorsOfIngest.ts';

const LINKER = 'services/linker/src/core';
const SIMULATE = 'services/cli/src/simulate/core';
const PLAN_EVENTS = 'services/projector/src/events/core/planEvents.ts';

export const SURVIVORS: readonly Survivors[] = [
  ...CONSUMER_SURVIVORS,
  ...INGEST_SURVIVORS,
  {
    file: `${SIMULATE}/seededRandom.ts`,
    line: 'return this.next() < share',
    reason: 'differs for one of 2^32 random numbers',
  },
  {
    file: `${SIMULATE}/game.ts`,
    line: 'bytes <= MAX_BATCH_BYTES',
    reason: 'a batch of exactly the maximum size is split, and the maximum is below the limit of a request',
  },
  {
    file: `${SIMULATE}/game.ts`,
    line: 'const lastMs = batches.at(-1)',
    reason: 'no simulated game of a test has a visit without an event, because such visits are rare',
  },
  ...sharing(`${SIMULATE}/game.ts`, ALWAYS_DEFINED, [
    '(events[from]?.atMs ?? 0)',
    'events.at(-1)?.atMs ?? 0), from, to',
  ]),
  {
    file: `${SIMULATE}/game.ts`,
    line: 'let to = from + 1',
    reason: 'the loop skips the events before the first event, because they are earlier',
  },
  {
    file: `${SIMULATE}/game.ts`,
    line: 'events[to]?.atMs ?? 0) <= dueMs',
    reason:
      'an event of the same millisecond goes into this batch or the next; the check satisfies the type checker',
  },
  { file: `${LINKER}/decideEvents.ts`, line: 'state.reports.get(report.key)?.askAt', reason: ALWAYS_DEFINED },
  { file: `${LINKER}/decideEvents.ts`, line: 'if (tracked === undefined ||', reason: ALWAYS_DEFINED },
  {
    file: `${LINKER}/decideEvents.ts`,
    line: 'const events = state.open.reports === 0',
    reason: 'time: without open reports, no event belongs to a report',
  },
  ...sharing(`${LINKER}/decideEvents.ts`, 'there is no id of a report or a session after the last event', [
    'for (let event = 0; event < events;',
    'for (let event = 0; event < record.count;',
  ]),
  {
    file: `${LINKER}/decideEvents.ts`,
    line: 'if (sessionId === null) return;',
    reason: 'no report is stored without a session',
  },
  {
    file: `${LINKER}/decideEvents.ts`,
    line: 'Micros: known === undefined',
    reason: 'equal times give the same result',
  },
  {
    file: `${LINKER}/decideEvents.ts`,
    line: 'if (!state.hasLinksLeft(',
    reason: 'time: the links are counted again when they are created',
  },
  {
    file: `${LINKER}/jobs.ts`,
    line: 'export const NO_HEAVY_PROJECTS',
    reason: 'the field is not read if there is no heavy project',
  },
  {
    file: `${LINKER}/jobs.ts`,
    line: 'if (answer.isComplete && max !== undefined',
    reason:
      'a comparison with an undefined limit is false, and only look-ups that started before the project was heavy contain other projects',
  },
  {
    file: `${LINKER}/jobs.ts`,
    line: 'isNext: ![...queried]',
    reason: 'only look-ups that started before a project was heavy contain other projects',
  },
  {
    file: `${LINKER}/jobs.ts`,
    line: 'others = others.filter(',
    reason: 'time: one more round without a key',
  },
  {
    file: `${LINKER}/jobs.ts`,
    line: 'const first =',
    reason: 'the index of an undefined kind is -1, so the result is 0 too',
  },
  {
    file: `${LINKER}/jobs.ts`,
    line: 'const kinds =',
    reason: 'a kind without due jobs is checked twice',
  },
  ...sharing(`${LINKER}/jobs.ts`, ALWAYS_DEFINED, [
    'if (report === undefined) continue;',
    'if (value !== undefined) first.set',
    'yield* (byProject.get(project) ??',
    'for (const own of others) yield',
  ]),
  { file: `${LINKER}/decideAnswers.ts`, line: 'if (retraction === undefined ||', reason: ALWAYS_DEFINED },
  { file: `${LINKER}/decideAnswers.ts`, line: 'if (record.isForwarded || report', reason: ALWAYS_DEFINED },
  { file: `${LINKER}/decideAnswers.ts`, line: ' : []) {', reason: NO_ENTRY },
  { file: `${LINKER}/decideAnswers.ts`, line: 'state.deferredLinks.get(key) ?? []', reason: NO_ENTRY },
  {
    file: `${LINKER}/linkerState.ts`,
    line: 'deferredLinkBytes: 16 *',
    reason: 'a memory limit; tests set lower limits',
  },
  {
    file: `${LINKER}/linkerState.ts`,
    line: 'if (atMs === undefined) {',
    reason: 'memory: entries that are never due are stored',
  },
  {
    file: `${LINKER}/linkerState.ts`,
    line: 'if (nowMs < this.#earliestMs)',
    reason: 'time: every key is checked',
  },
  {
    file: `${LINKER}/linkerState.ts`,
    line: 'if (closing === opening) return;',
    reason: 'time: the same report is removed and added again',
  },
  {
    file: `${LINKER}/packedIds.ts`,
    line: 'let hole = preferredSlotOf(',
    reason: 'time: the search wraps around to the same slot',
  },
  {
    file: `${LINKER}/packedIds.ts`,
    line: 'while (this.#index[hole] !==',
    reason: 'the oldest id is in its preferred slot, because all older ids were removed',
  },
  {
    file: `${LINKER}/packedIds.ts`,
    line: 'row < this.#size; row++',
    reason: 'ids are compared in full, so at worst a dropped id is still found',
  },
  {
    file: `${LINKER}/packedIds.ts`,
    line: 'words[0] = Number.parseInt(',
    reason: 'the parsed number ends at the hyphen of the UUID',
  },
  ...sharing(`${LINKER}/packedIds.ts`, 'time: more ids prefer the same slot', [
    'const high =',
    'const low =',
  ]),
  {
    file: `${LINKER}/openReports.ts`,
    line: 'sessionId !== null && maxSessionLinks > 0 && ownsSession',
    reason: 'no caller looks up reports without a session',
  },
  {
    file: `${LINKER}/openReports.ts`,
    line: "report.record.sessionId ?? ''",
    reason: 'no report is stored without a session',
  },
  {
    file: `${LINKER}/sessionFilter.ts`,
    line: 'Math.ceil((maxSessions * BITS_PER_SESSION)',
    reason: 'memory: more bits than necessary',
  },
  {
    file: `${LINKER}/sessionFilter.ts`,
    line: 'Math.imul(step, i)) >>> 0)',
    reason: 'each bit of a session has a different position that is equally good',
  },
  {
    file: `${LINKER}/sessionFilter.ts`,
    line: 'i < text.length; i++',
    reason: 'each hash has one more step, which is the same for all sessions',
  },
  { file: PLAN_EVENTS, line: 'this.#counts.get(name) ?? []', reason: ALWAYS_DEFINED },
  {
    file: PLAN_EVENTS,
    line: "excludedKeyOf(record.key ?? ''",
    reason: 'a text that is not a UUID names no tenant',
  },
  {
    file: PLAN_EVENTS,
    line: 'const isTime = minuteS >= 0',
    reason: '0 is the only start of a minute at the limits',
  },
  {
    file: PLAN_EVENTS,
    line: 'const slot = ((bytes[at]',
    reason: 'time: types have different slots, and more types may share a slot',
  },
  {
    file: PLAN_EVENTS,
    line: 'this.#next = (this.#next + 1)',
    reason: 'the ring is used in the opposite direction',
  },
];
