/** Survivors in ingest. Part of `survivors.ts`. */
import { ALWAYS_DEFINED, DECODED_AGAIN, NO_ENTRY, SLOWER_PATH, type Survivors, sharing } from './reasons.ts';
import { SCANNER_SURVIVORS } from './survivorsOfScanner.ts';

const COMPUTED_AGAIN = 'time: values that the previous event shares are computed again';
const INITIAL_SIZE = 'memory: an initial size in bytes; a buffer that is too small grows';
const QUOTAS = 'services/ingest/src/events/quotas.ts';
const REPLAYS = 'services/ingest/src/events/replays.ts';
const STORE_EVENTS = 'services/ingest/src/events/storeEvents.ts';
const EVENTS = 'services/ingest/src/events/core';
const ENTITY_CACHE = 'services/ingest/src/entityCache/core';
const LEDGER = 'services/ingest/src/ledger/core';
const LINKED = 'services/ingest/src/linkedEvents/core';
const REJECTIONS = 'services/ingest/src/rejections/core';
const REPORTS = 'services/ingest/src/reports/core';
const SESSIONS = 'services/ingest/src/sessions/core';
const UPLOADS = 'services/ingest/src/uploads/core';
const SWITCH_EVENTS = 'services/runtime/src/directory/core/switchEvents.ts';

export const INGEST_SURVIVORS: readonly Survivors[] = [
  {
    file: QUOTAS,
    line: 'const REFRESH_INTERVALS =',
    reason: 'tests use shorter intervals; the interval does not change the values that are read',
  },
  { file: QUOTAS, line: 'const isNear =', reason: 'changes when the usage is read, but not its value' },
  { file: QUOTAS, line: 'await delay(isNear', reason: 'closing waits for one interval' },
  {
    file: QUOTAS,
    line: 'const open = () =>',
    reason: 'a read that overlaps the first read can return the older value; the next read corrects it',
  },
  {
    file: REPLAYS,
    line: 'remove(name);',
    reason: 'memory: a retry with an abandoned key finds that nothing was stored',
  },
  { file: QUOTAS, line: 'if (entries.length === 0) continue', reason: 'without entries, nothing is read' },
  {
    file: REPLAYS,
    line: 'this.#truncations += 1',
    reason: 'the counter is compared only with its own earlier values',
  },
  ...sharing(STORE_EVENTS, 'time: random bytes are generated more often', [
    'if (this.#pool.length < bytes)',
    'const POOL_BYTES =',
  ]),
  { file: STORE_EVENTS, line: 'sampledOut.length === 0 ?', reason: SLOWER_PATH },
  { file: STORE_EVENTS, line: "records[i]?.appendId ?? ''", reason: ALWAYS_DEFINED },
  ...SCANNER_SURVIVORS,
  {
    file: `${LEDGER}/receivedCounts.ts`,
    line: 'export const SAMPLED',
    reason: 'a name in the tables, which the tests on ClickHouse check',
  },
  {
    file: `${LINKED}/streamId.ts`,
    line: '.replace(/^(.{8})',
    reason: 'the text has 32 characters, and the groups match all of them',
  },
  ...sharing(`${EVENTS}/scanElement.ts`, DECODED_AGAIN, [
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
  ...sharing(`${EVENTS}/scanBody.ts`, DECODED_AGAIN, ['new EnvelopeStrings(json, ']),
  ...sharing(`${EVENTS}/scanElement.ts`, SLOWER_PATH, [
    'if (i + name.length > end)',
    'if (length < 14 || length > 62',
    'for (const name of names) if (name.length',
  ]),
  ...sharing(`${EVENTS}/scanElement.ts`, 'invalid JSON has no elements', [
    "return this.end === FAILED ? ''",
    'else if (end !== FAILED) element.sequence',
  ]),
  { file: `${EVENTS}/scanElement.ts`, line: 'return name === undefined || fields', reason: ALWAYS_DEFINED },
  {
    file: `${EVENTS}/scanElement.ts`,
    line: 'const index = elements.findIndex',
    reason: 'no name starts at the end of an element',
  },
  { file: `${EVENTS}/scanBody.ts`, line: 'if (!scanned.isArray && only !==', reason: ALWAYS_DEFINED },
  ...sharing(`${EVENTS}/envelope.ts`, SLOWER_PATH, [
    'if (validator.Check(envelope))',
    'if (element.payloadKind !== undefined',
  ]),
  { file: `${EVENTS}/envelope.ts`, line: 'if (found.length > 0 || typeof', reason: ALWAYS_DEFINED },
  { file: `${EVENTS}/accept.ts`, line: 'const tried =', reason: ALWAYS_DEFINED },
  {
    file: `${EVENTS}/accept.ts`,
    line: 'const recordName = `${isRecordPerEvent',
    reason: 'one of the two words is enough to distinguish the names',
  },
  {
    file: `${EVENTS}/accept.ts`,
    line: 'const session = sessionId === null',
    reason: 'no session is stored without an id',
  },
  ...sharing(`${EVENTS}/answer.ts`, SLOWER_PATH, [
    'const reports = event.reportIds.length',
    'for (const part of parts) bytes +=',
  ]),
  ...sharing(`${EVENTS}/accept.ts`, COMPUTED_AGAIN, ['if (head === undefined)', 'this.#heads.set(']),
  ...sharing(`${EVENTS}/answer.ts`, COMPUTED_AGAIN, [
    'if (quoted === undefined)',
    'this.#quoted.set(',
    'if (micros !== this.#micros)',
  ]),
  ...sharing(`${EVENTS}/envelope.ts`, COMPUTED_AGAIN, ['if (known !== undefined)', 'this.#canonical.set(']),
  ...sharing(`${EVENTS}/answer.ts`, INITIAL_SIZE, ["return 'id' in element ?", 'const MARGIN_BYTES =']),
  ...sharing(`${EVENTS}/ordinaryBytes.ts`, INITIAL_SIZE, ['new ByteWriter(2 + found.count']),
  ...sharing(`${EVENTS}/ordinaryEvents.ts`, INITIAL_SIZE, [
    'this.bytes += end - i',
    'this.bytes += i - start',
    'const type = (this.typeEnd[event]',
    'return type + (this.payloadEnd',
  ]),
  { file: `${EVENTS}/answer.ts`, line: 'if (element !== undefined) write', reason: ALWAYS_DEFINED },
  { file: `${EVENTS}/answer.ts`, line: "#time = '';", reason: 'the field is set before it is read' },
  ...sharing(`${EVENTS}/envelope.ts`, SLOWER_PATH, [
    "element.kind === 'object' &&",
    'element.end - element.start <= LIMITS',
    "(typeof field === 'object' && field.kind",
    "if (typeof field !== 'string') return null",
  ]),
  ...sharing(`${EVENTS}/ordinaryBytes.ts`, SLOWER_PATH, ['for (let event = 0; event < found.count']),
  ...sharing(`${EVENTS}/ordinaryEvents.ts`, SLOWER_PATH, [
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
  ...sharing(
    `${EVENTS}/ordinaryEvents.ts`,
    'each field has its case, and each byte has its entry in the table',
    ['default:', '?? -1)'],
  ),
  {
    file: `${EVENTS}/ordinaryEvents.ts`,
    line: 'export const ABSENT =',
    reason: 'no value starts at the second byte of a body',
  },
  {
    file: `${EVENTS}/quotaLedger.ts`,
    line: 'if (logId === this.#logId) covered.set',
    reason: 'every partition of this log has an entry in `projected`',
  },
  {
    file: `${EVENTS}/quotaLedger.ts`,
    line: 'else this.#usedInOtherLogsByPartition.set',
    reason: 'the sum is compared only with its own earlier values, and a truncation changes it in both cases',
  },
  {
    file: `${EVENTS}/quotaLedger.ts`,
    line: 'this.#stale.delete(partition)',
    reason:
      'memory: the entry stays, but no later read equals it, because a truncation moved the usage to another log',
  },
  ...sharing(`${EVENTS}/quotaLedger.ts`, 'changes how many own appends are merged, within the limit', [
    'this.#ownAppends.set(partition, own.length > this.#maxOwn',
    'const [first, last] = [own.at(0)',
    'const offsetsOfOne =',
  ]),
  ...sharing(
    `${LEDGER}/receivedCounts.ts`,
    'a name that the ClickHouse views use; the tests of the views detect the mutant',
    ['export const LOGGED =', 'export const UNCERTAIN ='],
  ),
  {
    file: `${LEDGER}/receivedCounts.ts`,
    line: 'minute.isFull ||=',
    reason: 'a minute at its limit is full slightly earlier; the rejection is reported in both cases',
  },
  {
    file: `${LEDGER}/receivedCounts.ts`,
    line: 'const cell = { count: 0',
    reason: 'the value is changed immediately',
  },
  ...sharing(`${LINKED}/streamId.ts`, SLOWER_PATH, ["if (from === 'start' || from.logId"]),
  ...sharing(`${LINKED}/linkedEventText.ts`, SLOWER_PATH, [
    'if (!bytes.includes(LF)',
    'for (let at = 0; at < bytes.length',
  ]),
  ...sharing(`${REJECTIONS}/offendingPart.ts`, 'a problem names only positions that exist in the body', [
    'if (start === undefined) return this.around',
    'const to = Math.min(end === FAILED',
    'const next = isObject ? members?.valueAt',
    'if (json.at(at) !== OPEN_ARRAY ||',
    'if (end === FAILED) return undefined;',
  ]),
  ...sharing(`${REJECTIONS}/offendingPart.ts`, SLOWER_PATH, [
    'if (json.at(i) === COMMA) i =',
    'while (end > 0 && end < bytes.length',
    'export function mask(',
    "const withoutOwnToken = ownToken === ''",
    "if (name === 'eventType' && json.at",
  ]),
  {
    file: `${REJECTIONS}/rejectionCounts.ts`,
    line: 'if (rows.size === 0) this.#projects.delete',
    reason: 'memory: a project without rows stays in the map, and there are few projects',
  },
  {
    file: `${REJECTIONS}/rejectionCounts.ts`,
    line: 'const path = pointer.slice(0',
    reason: 'time: only the start of a longer name is shown in both cases',
  },
  {
    file: `${REJECTIONS}/rejectionCounts.ts`,
    line: 'export const NIL_UUID =',
    reason: 'only ClickHouse rejects an invalid UUID, and the tests on ClickHouse detect the mutant',
  },
  ...sharing(`${REPORTS}/readReport.ts`, 'an invalid UUID has the same effect as a missing UUID', [
    "id: canonicalUuid(value.id ?? '')",
    "sessionId: canonicalUuid(value.sessionId ?? '')",
    "clientRequestId: canonicalUuid(value.clientRequestId ?? '')",
    "buildId: canonicalUuid(value.buildId ?? '')",
    'const uuid = typeof id ===',
  ]),
  ...sharing(`${REPORTS}/readReport.ts`, NO_ENTRY, [
    'eventIds: [...new Set((value.eventIds ?? [])',
    'const inline: InlineEvents =',
    'const { elements = [], count = 0',
    'const sentFields = omitEmpty(fields, [])',
  ]),
  ...sharing(`${REPORTS}/readReport.ts`, SLOWER_PATH, [
    "const { start, end } = spans['context']",
    "if (value === undefined || value === '')",
    'return value.length === 0 && (field',
    'const descriptionBytes =',
  ]),
  ...sharing(`${SESSIONS}/sessionInput.ts`, 'an invalid UUID has the same effect as a missing UUID', [
    "id: canonicalUuid(value.id ?? '')",
    "const requestedId = canonicalUuid(buildId ?? '')",
  ]),
  ...sharing(`${SESSIONS}/sessionInput.ts`, 'Stryker’s string has no members', [
    "id: 'parsed',",
    "buildId: 'parsed',",
    "startedAt: 'parsed',",
  ]),
  ...sharing(
    'services/runtime/src/uploads/core/uploadAddress.ts',
    'the signature covers a different text, so the request is rejected',
    [
      'const uploadId = canonicalUuid(id)',
      "const projectId = canonicalUuid(textOf('project'))",
      'if (!isUuidV7(uploadId) ||',
      'return /^\\d{1,15}$/.test(text)',
    ],
  ),
  ...sharing('services/runtime/src/uploads/core/uploadKey.ts', SLOWER_PATH, [
    "return (mimeType.split(';', 1)[0]",
  ]),
  ...sharing(`${UPLOADS}/uploadRequest.ts`, SLOWER_PATH, [
    'const { attachmentType, fileName, mimeType, sizeBytes',
  ]),
  { file: SWITCH_EVENTS, line: 'if (active.length === 0) return', reason: SLOWER_PATH },
  {
    file: SWITCH_EVENTS,
    line: 'return (switches ?? [])',
    reason: 'Stryker’s string instead of a switch counts as expired',
  },
  ...sharing(SWITCH_EVENTS, 'differs for one of 2^32 sessions, players, or events', [
    'const isKept = fractionOf(',
    '/ 2 ** 32 < playerShare',
  ]),
  {
    file: 'services/operations/src/erasures/core/scope.ts',
    line: 'const found: Record<keyof ErasureFound, number> =',
    reason: 'for the type checker: each field is set later',
  },
  {
    file: `${ENTITY_CACHE}/isErased.ts`,
    line: 'NOTHING_ERASED: IsErased',
    reason: 'undefined has the same effect as false',
  },
  ...sharing(`${ENTITY_CACHE}/packedSessions.ts`, SLOWER_PATH, [
    'if (this.#size === 0) return undefined',
    'const origin = at === undefined ?',
    'if (at === undefined || origin === undefined)',
    'for (let left = TABLE_COUNT;',
    'if (table === undefined || table.size === 0)',
    'at < table.words.length; at +=',
    'if (table.size === previous) return',
    'let at = Math.floor((high / 2 ** 32)',
  ]),
  ...sharing(`${ENTITY_CACHE}/packedSessions.ts`, ALWAYS_DEFINED, [
    "if (table === undefined) throw new Error('there is a table",
  ]),
  {
    file: `${ENTITY_CACHE}/packedSessions.ts`,
    line: 'if (seen < SESSIONS_PER_STEP) continue',
    reason: 'a step has one more session',
  },
  ...sharing(
    `${ENTITY_CACHE}/packedSessions.ts`,
    'memory: one more slot, or one entry per session instead of a shared entry',
    ['return (this.size + 1) * 8 <=', 'const index = this.#indexes.get(name) ??', 'this.#free.push(index)'],
  ),
  {
    file: `${ENTITY_CACHE}/packedSessions.ts`,
    line: "{buildId ?? ''}`;",
    reason: 'an invalid UUID is not the id of a build',
  },
  ...sharing(`${ENTITY_CACHE}/openReports.ts`, SLOWER_PATH, [
    'if (linked.length === 0 && open.length',
    'if (id === null || this.#keys === 0)',
    'if (!isOverLimit && steps-- === 0)',
  ]),
  {
    file: `${ENTITY_CACHE}/openReports.ts`,
    line: 'if (this.#retracted.size > this.#maxRetracted',
    reason: ALWAYS_DEFINED,
  },
  {
    file: `${ENTITY_CACHE}/openReports.ts`,
    line: 'if (ids.length === 0 || closesAt < nowMs',
    reason: 'memory: no look-up finds the report, and it is evicted when other reports open',
  },
];
