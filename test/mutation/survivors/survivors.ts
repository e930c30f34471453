/**
 * The mutants that no test kills, by a text of their line, each group with its reason. A run fails where one of its
 * survivors is not here, and where one that is here is killed.
 */
import { ALWAYS_THERE, alike, NO_ENTRY, type Survivors } from './reasons.ts';
import { CONSUMER_SURVIVORS } from './survivorsOfConsumer.ts';
import { INGEST_SURVIVORS } from './survivorsOfIngest.ts';

const LINKER = 'services/linker/src/core';
const SIMULATE = 'services/cli/src/simulate/core';
const PLAN_EVENTS = 'services/projector/src/events/core/planEvents.ts';

export const SURVIVORS: readonly Survivors[] = [
  ...CONSUMER_SURVIVORS,
  ...INGEST_SURVIVORS,
  { file: `${SIMULATE}/seededRandom.ts`, line: 'return this.next() < share', reason: 'one draw of 2^32' },
  {
    file: `${SIMULATE}/game.ts`,
    line: 'bytes <= MAX_BATCH_BYTES',
    reason: 'a request of just so many bytes is sent in two, which takes less than a request may have',
  },
  {
    file: `${SIMULATE}/game.ts`,
    line: 'const lastMs = batches.at(-1)',
    reason: 'a visit without an event is so rare that no game of a test has one',
  },
  ...alike(`${SIMULATE}/game.ts`, ALWAYS_THERE, [
    '(events[from]?.atMs ?? 0)',
    'events.at(-1)?.atMs ?? 0), from, to',
  ]),
  {
    file: `${SIMULATE}/game.ts`,
    line: 'let to = from + 1',
    reason: 'the events before the first are earlier, and are passed over',
  },
  {
    file: `${SIMULATE}/game.ts`,
    line: 'events[to]?.atMs ?? 0) <= dueMs',
    reason: 'an event of that very millisecond goes with this batch or the next; the check is for the types',
  },
  { file: `${LINKER}/decideEvents.ts`, line: 'state.reports.get(report.key)?.askAt', reason: ALWAYS_THERE },
  { file: `${LINKER}/decideEvents.ts`, line: 'if (tracked === undefined ||', reason: ALWAYS_THERE },
  {
    file: `${LINKER}/decideEvents.ts`,
    line: 'const events = state.open.reports === 0',
    reason: 'time: without a report no event is one of it',
  },
  ...alike(`${LINKER}/decideEvents.ts`, 'behind the last event there is no id of a report or a session', [
    'for (let event = 0; event < events;',
    'for (let event = 0; event < record.count;',
  ]),
  {
    file: `${LINKER}/decideEvents.ts`,
    line: 'if (sessionId === null) return;',
    reason: 'no report is kept under no session',
  },
  {
    file: `${LINKER}/decideEvents.ts`,
    line: 'Micros: known === undefined',
    reason: 'equal times are one time',
  },
  {
    file: `${LINKER}/decideEvents.ts`,
    line: 'if (!state.hasLinksLeft(',
    reason: 'time: where the links are made they are counted once more',
  },
  {
    file: `${LINKER}/jobs.ts`,
    line: 'export const NO_HEAVY_PROJECTS',
    reason: 'without a heavy project nobody asks whose turn it is',
  },
  {
    file: `${LINKER}/jobs.ts`,
    line: 'if (answer.isComplete && max !== undefined',
    reason:
      'no number is below no bound, and only a look-up from before a project was heavy asks for others beside it',
  },
  {
    file: `${LINKER}/jobs.ts`,
    line: 'isNext: ![...queried]',
    reason: 'only a look-up from before a project was heavy asks for others beside it',
  },
  { file: `${LINKER}/jobs.ts`, line: 'others = others.filter(', reason: 'time: a round more, of no key' },
  {
    file: `${LINKER}/jobs.ts`,
    line: 'const first =',
    reason: 'the index of no kind is -1, so that 0 follows',
  },
  {
    file: `${LINKER}/jobs.ts`,
    line: 'const kinds =',
    reason: 'a kind of which nothing is due is asked twice',
  },
  ...alike(`${LINKER}/jobs.ts`, ALWAYS_THERE, [
    'if (report === undefined) continue;',
    'if (value !== undefined) first.set',
    'yield* (byProject.get(project) ??',
    'for (const own of others) yield',
  ]),
  { file: `${LINKER}/decideAnswers.ts`, line: 'if (retraction === undefined ||', reason: ALWAYS_THERE },
  { file: `${LINKER}/decideAnswers.ts`, line: 'if (record.isForwarded || report', reason: ALWAYS_THERE },
  { file: `${LINKER}/decideAnswers.ts`, line: ' : []) {', reason: NO_ENTRY },
  { file: `${LINKER}/decideAnswers.ts`, line: 'state.deferredLinks.get(key) ?? []', reason: NO_ENTRY },
  {
    file: `${LINKER}/linkerState.ts`,
    line: 'deferredLinkBytes: 16 *',
    reason: 'a bound of memory; tests have smaller ones',
  },
  {
    file: `${LINKER}/linkerState.ts`,
    line: 'if (atMs === undefined) {',
    reason: 'memory: what is never due is kept',
  },
  {
    file: `${LINKER}/linkerState.ts`,
    line: 'if (nowMs < this.#earliestMs)',
    reason: 'time: every key is looked at',
  },
  {
    file: `${LINKER}/linkerState.ts`,
    line: 'if (closing === opening) return;',
    reason: 'time: the same report is taken out and put in again',
  },
  {
    file: `${LINKER}/packedIds.ts`,
    line: 'let hole = preferredSlotOf(',
    reason: 'time: the search comes round to the same place',
  },
  {
    file: `${LINKER}/packedIds.ts`,
    line: 'while (this.#index[hole] !==',
    reason: 'the oldest is at its home: whatever was there before it was older, and is gone',
  },
  {
    file: `${LINKER}/packedIds.ts`,
    line: 'row < this.#size; row++',
    reason: 'an id is compared before it is believed: at worst one that was dropped is still known',
  },
  {
    file: `${LINKER}/packedIds.ts`,
    line: 'words[0] = Number.parseInt(',
    reason: 'the number ends at the dash',
  },
  ...alike(`${LINKER}/packedIds.ts`, 'time: more ids want one place', ['const high =', 'const low =']),
  {
    file: `${LINKER}/openReports.ts`,
    line: 'sessionId !== null && maxSessionLinks > 0 && ownsSession',
    reason: 'nobody asks for the reports of no session',
  },
  {
    file: `${LINKER}/openReports.ts`,
    line: "report.record.sessionId ?? ''",
    reason: 'no report is kept under no session',
  },
  {
    file: `${LINKER}/sessionFilter.ts`,
    line: 'Math.ceil((maxSessions * BITS_PER_SESSION)',
    reason: 'memory: more bits than need be',
  },
  {
    file: `${LINKER}/sessionFilter.ts`,
    line: 'Math.imul(step, i)) >>> 0)',
    reason: 'another place, as good, for each bit of a session',
  },
  {
    file: `${LINKER}/sessionFilter.ts`,
    line: 'i < text.length; i++',
    reason: 'each hash goes one step further, of every session alike',
  },
  { file: PLAN_EVENTS, line: 'this.#counts.get(name) ?? []', reason: ALWAYS_THERE },
  {
    file: PLAN_EVENTS,
    line: "excludedKeyOf(record.key ?? ''",
    reason: 'no text that is not a UUID names a tenant',
  },
  {
    file: PLAN_EVENTS,
    line: 'const isTime = minuteS >= 0',
    reason: 'no minute begins at the bounds but 0 itself',
  },
  {
    file: PLAN_EVENTS,
    line: 'const slot = ((bytes[at]',
    reason: 'time: types have other places, of which more of them may want one',
  },
  {
    file: PLAN_EVENTS,
    line: 'this.#next = (this.#next + 1)',
    reason: 'the ring is gone round the other way',
  },
];
