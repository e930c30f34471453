/** Those of `survivors.ts` that are the ingest's. */
import { ALWAYS_THERE, alike, NO_ENTRY, READ_AGAIN, SAME_BY_ANOTHER_WAY, type Survivors } from './reasons.ts';
import { SCANNER_SURVIVORS } from './survivorsOfScanner.ts';

const MADE_AGAIN = 'time: what the last event had in common with it is made again';
const FIRST_GUESS = 'memory: a first guess of the bytes; where it is too small they grow';
const QUOTAS = 'services/ingest/src/events/quotas.ts';
const REPLAYS = 'services/ingest/src/events/replays.ts';
const STORE_EVENTS = 'services/ingest/src/events/storeEvents.ts';
const EVENTS = 'services/ingest/src/events/core';
const KNOWN = 'services/ingest/src/entityCache/core';
const LEDGER = 'services/ingest/src/ledger/core';
const LINKED = 'services/ingest/src/linkedEvents/core';
const REJECTIONS = 'services/ingest/src/rejections/core';
const REPORTS = 'services/ingest/src/reports/core';
const SESSIONS = 'services/ingest/src/sessions/core';
const UPLOADS = 'services/ingest/src/uploads/core';
const SWITCH_EVENTS = 'services/ingest/src/limits/core/switchEvents.ts';

export const INGEST_SURVIVORS: readonly Survivors[] = [
  {
    file: QUOTAS,
    line: 'const REFRESH_INTERVALS =',
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
    line: 'remove(name);',
    reason: 'memory alone: a repeat of a key that was given up finds that nothing was stored',
  },
  { file: QUOTAS, line: 'if (entries.length === 0) continue', reason: 'nothing is read of nobody' },
  { file: REPLAYS, line: 'this.#truncations += 1', reason: 'it is only compared with itself' },
  ...alike(STORE_EVENTS, 'time: random bytes are drawn oftener', [
    'if (this.#pool.length < bytes)',
    'const POOL_BYTES =',
  ]),
  { file: STORE_EVENTS, line: 'sampledOut.length === 0 ?', reason: SAME_BY_ANOTHER_WAY },
  { file: STORE_EVENTS, line: "records[i]?.appendId ?? ''", reason: ALWAYS_THERE },
  ...SCANNER_SURVIVORS,
  {
    file: `${LEDGER}/receivedCounts.ts`,
    line: 'export const SAMPLED',
    reason: 'a name in the tables, which the tests on ClickHouse read',
  },
  {
    file: `${LINKED}/streamId.ts`,
    line: '.replace(/^(.{8})',
    reason: 'it is 32 characters, and all of them are in the groups',
  },
  ...alike(`${EVENTS}/scanElement.ts`, READ_AGAIN, [
    'wasPlainAscii = true;',
    'this.known = isBatch',
    'const slot = words !== undefined',
    'if (words !== undefined && slot !== NO_SLOT)',
    'if (known !== undefined && known !== NO_STRING',
    'if (json.at(plainEnd) !== QUOTE)',
    'if (slot !== NO_SLOT) this.known[slot]',
    'private matchesAt(known',
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
    'const NO_STRING:',
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
    line: 'const recordName = `${isRecordPerEvent',
    reason: 'one of the two words tells them apart',
  },
  {
    file: `${EVENTS}/accept.ts`,
    line: 'const session = sessionId === null',
    reason: 'no session is known under no id',
  },
  ...alike(`${EVENTS}/answer.ts`, SAME_BY_ANOTHER_WAY, [
    'const reports = event.reportIds.length',
    'for (const part of parts) bytes +=',
  ]),
  ...alike(`${EVENTS}/accept.ts`, MADE_AGAIN, ['if (head === undefined)', 'this.#heads.set(']),
  ...alike(`${EVENTS}/answer.ts`, MADE_AGAIN, [
    'if (quoted === undefined)',
    'this.#quoted.set(',
    'if (micros !== this.#micros)',
  ]),
  ...alike(`${EVENTS}/envelope.ts`, MADE_AGAIN, ['if (known !== undefined)', 'this.#canonical.set(']),
  ...alike(`${EVENTS}/answer.ts`, FIRST_GUESS, ["return 'id' in element ?", 'const MARGIN_BYTES =']),
  ...alike(`${EVENTS}/ordinaryBytes.ts`, FIRST_GUESS, ['new ByteWriter(2 + found.count']),
  ...alike(`${EVENTS}/ordinaryEvents.ts`, FIRST_GUESS, [
    'this.bytes += end - i',
    'this.bytes += i - start',
    'const type = (this.typeEnd[event]',
    'return type + (this.payloadEnd',
  ]),
  { file: `${EVENTS}/answer.ts`, line: 'if (element !== undefined) write', reason: ALWAYS_THERE },
  { file: `${EVENTS}/answer.ts`, line: "#time = '';", reason: 'it is set before it is read' },
  ...alike(`${EVENTS}/envelope.ts`, SAME_BY_ANOTHER_WAY, [
    "element.kind === 'object' &&",
    'element.end - element.start <= LIMITS',
    "(typeof field === 'object' && field.kind",
    "if (typeof field !== 'string') return null",
  ]),
  ...alike(`${EVENTS}/ordinaryBytes.ts`, SAME_BY_ANOTHER_WAY, ['for (let event = 0; event < found.count']),
  ...alike(`${EVENTS}/ordinaryEvents.ts`, SAME_BY_ANOTHER_WAY, [
    'return i !== FAILED && json.skipSpace',
    'if (i === FAILED) return FAILED',
    'if (field === NO_FIELD ||',
    'if ((seen & needed) !== needed ||',
    'if (end === FAILED || json.depth',
    'if (end - i <= SHORT_TIME)',
    'if (timeEnd >= end ||',
    'if (end - i <= UUID_LENGTH ||',
    'if ((a | b | c',
  ]),
  ...alike(`${EVENTS}/ordinaryEvents.ts`, 'each field has its case, and each byte its place in the table', [
    'default:',
    '?? -1)',
  ]),
  {
    file: `${EVENTS}/ordinaryEvents.ts`,
    line: 'export const ABSENT =',
    reason: 'no value is the second byte of a body',
  },
  {
    file: `${EVENTS}/quotaLedger.ts`,
    line: 'if (logId === this.#logId) covered.set',
    reason: 'every partition of this log has its place in `projected`',
  },
  {
    file: `${EVENTS}/quotaLedger.ts`,
    line: 'else this.#usedInOtherLogsByPartition.set',
    reason: 'the sum is only compared with itself, and a cut changes it either way',
  },
  {
    file: `${EVENTS}/quotaLedger.ts`,
    line: 'this.#stale.delete(partition)',
    reason: 'memory: what a cut has moved elsewhere stays there, so that no reading says the same again',
  },
  ...alike(`${EVENTS}/quotaLedger.ts`, 'how coarse own appends become, within their bound', [
    'this.#ownAppends.set(partition, own.length > this.#maxOwn',
    'const [first, last] = [own.at(0)',
    'const offsetsOfOne =',
  ]),
  ...alike(`${LEDGER}/receivedCounts.ts`, 'a name that the views of ClickHouse know: their tests notice it', [
    'export const LOGGED =',
    'export const UNCERTAIN =',
  ]),
  {
    file: `${LEDGER}/receivedCounts.ts`,
    line: 'minute.isFull ||=',
    reason: 'a minute at its bound is full a moment earlier; who is refused is told either way',
  },
  { file: `${LEDGER}/receivedCounts.ts`, line: 'const cell = { count: 0', reason: 'it is changed at once' },
  ...alike(`${LINKED}/streamId.ts`, SAME_BY_ANOTHER_WAY, ["if (from === 'start' || from.logId"]),
  ...alike(`${LINKED}/linkedEventText.ts`, SAME_BY_ANOTHER_WAY, [
    'if (!bytes.includes(LF)',
    'for (let at = 0; at < bytes.length',
  ]),
  ...alike(`${REJECTIONS}/offendingPart.ts`, 'a problem names no place that the body does not have', [
    'if (start === undefined) return this.around',
    'const to = Math.min(end === FAILED',
    'const next = isObject ? members?.valueAt',
    'if (json.at(at) !== OPEN_ARRAY ||',
    'if (end === FAILED) return undefined;',
  ]),
  ...alike(`${REJECTIONS}/offendingPart.ts`, SAME_BY_ANOTHER_WAY, [
    'if (json.at(i) === COMMA) i =',
    'while (end > 0 && end < bytes.length',
    'export function mask(',
    "const withoutOwnToken = ownToken === ''",
    "if (name === 'eventType' && json.at",
  ]),
  {
    file: `${REJECTIONS}/rejectionCounts.ts`,
    line: 'if (rows.size === 0) this.#projects.delete',
    reason: 'memory: a project without a row stays, and projects are few',
  },
  {
    file: `${REJECTIONS}/rejectionCounts.ts`,
    line: 'const path = pointer.slice(0',
    reason: 'time: of a longer name the begin is shown either way',
  },
  {
    file: `${REJECTIONS}/rejectionCounts.ts`,
    line: 'export const NIL_UUID =',
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
    'const sentFields = omitEmpty(fields, [])',
  ]),
  ...alike(`${REPORTS}/readReport.ts`, SAME_BY_ANOTHER_WAY, [
    "const { start, end } = spans['context']",
    "if (value === undefined || value === '')",
    'return value.length === 0 && (field',
    'const descriptionBytes =',
  ]),
  ...alike(`${SESSIONS}/sessionInput.ts`, 'a text that is no UUID is as good as none', [
    "id: canonicalUuid(value.id ?? '')",
    "const requestedId = canonicalUuid(buildId ?? '')",
  ]),
  ...alike(`${SESSIONS}/sessionInput.ts`, 'a text has no members to name', [
    "id: 'parsed',",
    "buildId: 'parsed',",
    "startedAt: 'parsed',",
  ]),
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
  { file: SWITCH_EVENTS, line: 'if (active.length === 0) return', reason: SAME_BY_ANOTHER_WAY },
  { file: SWITCH_EVENTS, line: 'return (switches ?? [])', reason: 'a text instead of a switch has ended' },
  ...alike(SWITCH_EVENTS, 'one of 2^32 sessions, players or events', [
    'const isKept = fractionOf(',
    '/ 2 ** 32 < playerShare',
  ]),
  {
    file: 'services/ingest/src/erasures/core/scope.ts',
    line: 'const found: Record<keyof ErasureFound, number> =',
    reason: 'for the types: each place is filled',
  },
  { file: `${KNOWN}/isErased.ts`, line: 'NOTHING_ERASED: IsErased', reason: 'nothing is as much as false' },
  ...alike(`${KNOWN}/packedSessions.ts`, SAME_BY_ANOTHER_WAY, [
    'if (this.#size === 0) return undefined',
    'const origin = at === undefined ?',
    'if (at === undefined || origin === undefined)',
    'for (let left = TABLE_COUNT;',
    'if (table === undefined || table.size === 0)',
    'at < table.words.length; at +=',
    'if (table.size === previous) return',
    'let at = Math.floor((high / 2 ** 32)',
  ]),
  ...alike(`${KNOWN}/packedSessions.ts`, ALWAYS_THERE, [
    "if (table === undefined) throw new Error('there is a table",
  ]),
  {
    file: `${KNOWN}/packedSessions.ts`,
    line: 'if (seen < SESSIONS_PER_STEP) continue',
    reason: 'a step has one session more',
  },
  ...alike(`${KNOWN}/packedSessions.ts`, 'memory: a slot more, or an entry for each session instead of one', [
    'return (this.size + 1) * 8 <=',
    'const index = this.#indexes.get(name) ??',
    'this.#free.push(index)',
  ]),
  {
    file: `${KNOWN}/packedSessions.ts`,
    line: "{buildId ?? ''}`;",
    reason: 'a text that is no UUID is no build either',
  },
  ...alike(`${KNOWN}/openReports.ts`, SAME_BY_ANOTHER_WAY, [
    'if (linked.length === 0 && open.length',
    'if (id === null || this.#keys === 0)',
    'if (!isOverLimit && steps-- === 0)',
  ]),
  {
    file: `${KNOWN}/openReports.ts`,
    line: 'if (this.#retracted.size > this.#maxRetracted',
    reason: ALWAYS_THERE,
  },
  {
    file: `${KNOWN}/openReports.ts`,
    line: 'if (ids.length === 0 || closesAt < nowMs',
    reason: 'memory: nobody finds it, and it goes as others open',
  },
];
