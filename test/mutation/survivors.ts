/**
 * The mutants that no test kills, by a text of their line, each group with its reason. A run fails where one of its
 * survivors is not here, and where one that is here is killed.
 */

export interface Survivors {
  readonly file: string;
  /** A part of the line on which the mutants begin. */
  readonly line: string;
  readonly reason: string;
}

const QUOTAS = 'services/ingest/src/events/quotas.ts';
const REPLAYS = 'services/ingest/src/events/replays.ts';
const LINKER = 'services/linker/src/core';
const CONSUMER = 'services/runtime/src/consumer';
const INGEST = 'services/ingest/src/core';
const EVENTS = 'services/ingest/src/events/core';
const LEDGER = 'services/ingest/src/ledger/core';
const LINKED = 'services/ingest/src/linkedEvents/core';
const REJECTS = 'services/ingest/src/rejects/core';
const REPORTS = 'services/ingest/src/reports/core';
const SESSIONS = 'services/ingest/src/sessions/core';
const UPLOADS = 'services/ingest/src/uploads/core';
const SWITCH_EVENTS = 'services/ingest/src/limits/core/switchEvents.ts';
const PLAN_EVENTS = 'services/projector/src/events/core/planEvents.ts';

/** The check is for the types. */
const ALWAYS_THERE = 'it is always there: who asks has it from the same state';
/** Stryker fills an empty array with a text. */
const NO_ENTRY = 'a text instead of an entry names nothing and is skipped';
const SAME_BY_ANOTHER_WAY = 'time: the longer way has the same outcome';
const READ_AGAIN = 'time: a string that came before is made again instead of being found';

const alike = (file: string, reason: string, lines: readonly string[]): Survivors[] =>
  lines.map((line) => ({ file, line, reason }));

export const SURVIVORS: readonly Survivors[] = [
  {
    file: QUOTAS,
    line: 'const PACE =',
    reason: 'tests have a quicker pace; how soon a reading comes changes no reading',
  },
  { file: QUOTAS, line: 'const isNear =', reason: 'how soon a reading comes, not what it says' },
  { file: QUOTAS, line: 'await delay(isNear', reason: 'closing would wait out one pace' },
  {
    file: QUOTAS,
    line: 'const open = () =>',
    reason: 'a reading that overlaps the first one may be the older of two; the next one mends it',
  },
  {
    file: REPLAYS,
    line: 'forget(name);',
    reason: 'memory alone: a repeat of a key that was given up finds that nothing was stored',
  },
  { file: `${LINKER}/decideEvents.ts`, line: 'state.reports.get(report.key)?.askAt', reason: ALWAYS_THERE },
  { file: `${LINKER}/decideEvents.ts`, line: 'if (tracked === undefined ||', reason: ALWAYS_THERE },
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
    line: 'export const NONE_HEAVY',
    reason: 'without a heavy project nobody asks whose turn it is',
  },
  {
    file: `${LINKER}/jobs.ts`,
    line: 'if (answer.isWhole && max !== undefined',
    reason:
      'no number is below no bound, and only a look-up from before a project was heavy asks for others beside it',
  },
  {
    file: `${LINKER}/jobs.ts`,
    line: 'isNext: ![...asked]',
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
    line: 'const inTurn =',
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
  { file: `${LINKER}/decideAnswers.ts`, line: 'state.held.get(key) ?? []', reason: NO_ENTRY },
  {
    file: `${LINKER}/linkerState.ts`,
    line: 'heldBytes: 16 *',
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
    line: 'let hole = homeOf(',
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
    line: 'record.sessionId !== null && ownsSession',
    reason: 'nobody asks for the reports of no session',
  },
  {
    file: `${LINKER}/openReports.ts`,
    line: "report.record.sessionId ?? ''",
    reason: 'no report is kept under no session',
  },
  {
    file: `${LINKER}/sessionFilter.ts`,
    line: 'Math.ceil((maxSessions * BITS_A_SESSION)',
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
    file: `${CONSUMER}/findCut.ts`,
    line: "let same = proof === 'same'",
    reason: 'time: what the last record has shown is looked at once more',
  },
  {
    file: `${CONSUMER}/findCut.ts`,
    line: 'const isTopSame =',
    reason: 'time: a row that the last record has shown is compared',
  },
  {
    file: `${CONSUMER}/findCut.ts`,
    line: 'let other = Math.min(told',
    reason: 'ClickHouse alone minds a number beyond its integers, and its tests notice it',
  },
  {
    file: `${CONSUMER}/findCut.ts`,
    line: 'for (let about = other',
    reason: 'time: how many rows are looked at until the last one that is the same',
  },
  {
    file: `${CONSUMER}/deadLetters.ts`,
    line: 'if (id !== undefined) remember(ids, id);',
    reason: 'nobody asks for a letter without an id',
  },
  {
    file: `${CONSUMER}/deadLetters.ts`,
    line: 'if (ids.size > MAX_KNOWN_LETTERS',
    reason: 'a bound of memory: so many letters would take a test minutes',
  },
  {
    file: `${CONSUMER}/deadLetters.ts`,
    line: 'const share = this.#seen >= WINDOW_RECORDS',
    reason: 'one record of a thousand earlier or later',
  },
  {
    file: `${CONSUMER}/blocks.ts`,
    line: 'this.#isCommitted = committed !== undefined',
    reason:
      'it tells an insert that was acknowledged and dropped, which ClickHouse alone shows: lostOffsets.int.test.ts',
  },
  ...alike(`${INGEST}/occurredAt.ts`, SAME_BY_ANOTHER_WAY, [
    'if (timeEnd === INVALID) return',
    'if (Number.isSafeInteger(approximate)',
    'if (text.length < 10 ||',
    'if (Number.isSafeInteger(total)',
    'return i < text.length ? text.charCodeAt(i)',
  ]),
  ...alike(`${EVENTS}/scanElement.ts`, READ_AGAIN, [
    'wasPlain = true;',
    'this.known = isBatch',
    'const slot = words !== undefined',
    'if (words !== undefined && slot !== NO_SLOT)',
    'if (known !== undefined && known !== NOTHING',
    'if (json.at(plainEnd) !== QUOTE)',
    'if (slot !== NO_SLOT) this.known[slot]',
    'private stands(known',
    'if (i + quoteAt - start >= end)',
    'while (k + 3 <= quoteAt',
    'k += 4;',
    'i += 4;',
    'while (k <= quoteAt',
    'k++;',
    'if (k <= quoteAt) return false;',
    'return true;',
    'function slotOf(',
    'return field * SLOTS_PER_FIELD',
    'const NO_SLOT =',
    'const NOTHING:',
  ]),
  ...alike(`${EVENTS}/scanBody.ts`, READ_AGAIN, ['new EnvelopeStrings(json, ']),
  ...alike(`${EVENTS}/scanElement.ts`, SAME_BY_ANOTHER_WAY, [
    'if (i + name.length > end)',
    'if (length < 14 || length > 62',
    'for (const name of names) if (name.length',
  ]),
  ...alike(`${EVENTS}/scanElement.ts`, 'what is no JSON has no elements', [
    "return this.end === FAILED ? ''",
    'else if (end !== FAILED) element.sequence',
  ]),
  { file: `${EVENTS}/scanElement.ts`, line: 'return name === undefined || fields', reason: ALWAYS_THERE },
  {
    file: `${EVENTS}/scanElement.ts`,
    line: 'const index = elements.findIndex',
    reason: 'a name never begins where an element ends',
  },
  { file: `${EVENTS}/scanBody.ts`, line: 'if (!scanned.isArray && only !==', reason: ALWAYS_THERE },
  ...alike(`${EVENTS}/envelope.ts`, SAME_BY_ANOTHER_WAY, [
    'if (validator.Check(envelope))',
    'if (element.payloadKind !== undefined',
  ]),
  { file: `${EVENTS}/envelope.ts`, line: 'if (found.length > 0 || typeof', reason: ALWAYS_THERE },
  { file: `${EVENTS}/accept.ts`, line: 'const tried =', reason: ALWAYS_THERE },
  {
    file: `${EVENTS}/accept.ts`,
    line: 'const session = sessionId === null',
    reason: 'no session is known under no id',
  },
  ...alike(`${EVENTS}/answer.ts`, SAME_BY_ANOTHER_WAY, [
    'const reports = event.reportIds.length',
    'for (const part of parts) bytes +=',
  ]),
  {
    file: `${EVENTS}/quotaLedger.ts`,
    line: 'if (logId === this.#logId) covered.set',
    reason: 'every partition of this log has its place in `projected`',
  },
  {
    file: `${EVENTS}/quotaLedger.ts`,
    line: 'else this.#usedElsewhere.set',
    reason: 'the sum is only compared with itself, and a cut changes it either way',
  },
  {
    file: `${EVENTS}/quotaLedger.ts`,
    line: 'this.#stale.delete(partition)',
    reason: 'memory: what a cut has moved elsewhere stays there, so that no reading says the same again',
  },
  ...alike(`${EVENTS}/quotaLedger.ts`, 'how coarse own appends become, within their bound', [
    'this.#own.set(partition, own.length > this.#maxOwn',
    'const [first, last] = [own.at(0)',
    'const offsetsOfOne =',
  ]),
  {
    file: PLAN_EVENTS,
    line: "leftOutKey(record.key ?? ''",
    reason: 'no text that is not a UUID names a tenant',
  },
  {
    file: PLAN_EVENTS,
    line: 'const isTime = minuteS >= 0',
    reason: 'no minute begins at the bounds but 0 itself',
  },
  ...alike(`${LEDGER}/receivedCounts.ts`, 'a name that the views of ClickHouse know: their tests notice it', [
    'export const LOGGED =',
    'export const UNCERTAIN =',
  ]),
  {
    file: `${LEDGER}/receivedCounts.ts`,
    line: 'minute.isFull ||=',
    reason: 'a minute at its bound is full a moment earlier; who is refused is told either way',
  },
  {
    file: `${LEDGER}/receivedCounts.ts`,
    line: 'const cell = { count: 0',
    reason: 'it is changed at once',
  },
  ...alike(`${LINKED}/linkedEventToken.ts`, SAME_BY_ANOTHER_WAY, ["if (from === 'start' || from.logId"]),
  ...alike(`${LINKED}/linkedEventText.ts`, SAME_BY_ANOTHER_WAY, [
    'if (!bytes.includes(LF)',
    'for (let at = 0; at < bytes.length',
  ]),
  ...alike(`${REJECTS}/offendingPart.ts`, 'a problem names no place that the body does not have', [
    'if (start === undefined) return this.around',
    'const to = Math.min(end === FAILED',
    'const next = isObject ? members?.valueAt',
    'if (json.at(at) !== OPEN_ARRAY ||',
    'if (end === FAILED) return undefined;',
  ]),
  ...alike(`${REJECTS}/offendingPart.ts`, SAME_BY_ANOTHER_WAY, [
    'if (json.at(i) === COMMA) i =',
    'while (end > 0 && end < bytes.length',
    'export function masked(',
    "const known = ownToken === ''",
    "if (name === 'eventType' && json.at",
  ]),
  {
    file: `${REJECTS}/rejectCounts.ts`,
    line: 'if (rows.size === 0) this.#projects.delete',
    reason: 'memory: a project without a row stays, and projects are few',
  },
  {
    file: `${REJECTS}/rejectCounts.ts`,
    line: 'const path = pointer.slice(0',
    reason: 'time: of a longer name the begin is shown either way',
  },
  {
    file: `${REJECTS}/rejectCounts.ts`,
    line: 'export const NOBODY =',
    reason: 'ClickHouse alone minds what is no UUID, and its tests notice it',
  },
  ...alike(`${REPORTS}/readReport.ts`, 'a text that is no UUID is as good as none', [
    "id: canonicalUuid(value.id ?? '')",
    "sessionId: canonicalUuid(value.sessionId ?? '')",
    "clientRequestId: canonicalUuid(value.clientRequestId ?? '')",
    "buildId: canonicalUuid(value.buildId ?? '')",
    'const uuid = typeof id ===',
  ]),
  ...alike(`${REPORTS}/readReport.ts`, NO_ENTRY, [
    'eventIds: [...new Set((value.eventIds ?? [])',
    'const inline: InlineEvents =',
    'const { elements = [], count = 0',
    'const given = withoutEmpty(fields, [])',
  ]),
  ...alike(`${REPORTS}/readReport.ts`, SAME_BY_ANOTHER_WAY, [
    "const { start, end } = spans['context']",
    "if (value === undefined || value === '')",
    'return value.length === 0 && (field',
    'const descriptionBytes =',
  ]),
  ...alike(`${SESSIONS}/sessionInput.ts`, 'a text that is no UUID is as good as none', [
    "id: canonicalUuid(value.id ?? '')",
    "const named = canonicalUuid(given ?? '')",
  ]),
  { file: `${SESSIONS}/sessionInput.ts`, line: "id: 'parsed',", reason: 'a text has no members to name' },
  ...alike(`${UPLOADS}/uploadAddress.ts`, 'the signature is of another text, and refuses it', [
    'const uploadId = canonicalUuid(id)',
    "const projectId = canonicalUuid(textOf('project'))",
    'if (!isUuidV7(uploadId) ||',
    'return /^\\d{1,15}$/.test(text)',
  ]),
  ...alike(`${UPLOADS}/uploadRequest.ts`, SAME_BY_ANOTHER_WAY, [
    'const { attachmentType, fileName, mimeType, sizeBytes',
    "return (mimeType.split(';', 1)[0]",
  ]),
  { file: SWITCH_EVENTS, line: 'if (inForce.length === 0) return', reason: SAME_BY_ANOTHER_WAY },
  { file: SWITCH_EVENTS, line: 'return (switches ?? [])', reason: 'a text instead of a switch has ended' },
  ...alike(SWITCH_EVENTS, 'one of 2^32 sessions, players or events', [
    'const isKept = shareOf(',
    '/ 2 ** 32 < playerShare',
  ]),
  {
    file: 'services/ingest/src/erasures/core/scope.ts',
    line: 'const found: Record<keyof ErasureFound, number> =',
    reason: 'for the types: each place is filled',
  },
];
