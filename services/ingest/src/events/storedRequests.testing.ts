/** Test support: random requests, their records and responses, and the same values from simple, slow code. */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { timestampProblem } from '@questlog/runtime/http/core/fieldProblems';
import { type ElementProblem, problemOf } from '@questlog/schemas/http/problem';
import { formatMicros, parseOccurredAt } from '@questlog/schemas/isoTime';
import { frame, parseSchema } from '@questlog/schemas/topics/contract';
import {
  type AcceptedEvent,
  type EventsAccepted,
  eventsAccepted,
  type Revision,
} from '@questlog/schemas/topics/eventsAccepted';
import { canonicalUuid, eventId, millisOf } from '@questlog/schemas/uuid';
import { expect } from 'vitest';
import { type AnsweredEvent, eventArray, eventObject } from './core/answer.ts';
import { type Draft, type Elements, problemsOf } from './core/envelope.ts';
import {
  answerOf,
  EARLIER,
  type EventArrays,
  NEW,
  OVER_QUOTA,
  type ReportIds,
  recordOf,
  SAMPLED_OUT,
  writeIds,
} from './core/eventBytes.ts';
import type { EventColumns } from './core/eventColumns.ts';
import { type Idempotency, keyedTails } from './core/keyedIds.ts';
import { RecordParts, recordName } from './core/recordParts.ts';
import type { ScannedElement } from './core/scanElement.ts';
import { type Dice, KEY, SESSION } from './damagedBodies.testing.ts';

const NOW = 1_795_262_987_142;
const SHAPES = ['lane', 'session', 'event'] as const;
const STATES = [NEW, NEW, NEW, NEW | OVER_QUOTA, NEW | SAMPLED_OUT, EARLIER, EARLIER | SAMPLED_OUT, 0];
const NEW_ID = NEW | EARLIER;

type Request = ReturnType<typeof aRequest>;

/** Creates a request with random sessions, states, ids, and reports. */
export function aRequest(
  body: Buffer,
  elements: number,
  { drafts, problems }: Elements,
  revision: Revision,
  dice: Dice,
) {
  const idempotency: Idempotency | null =
    dice.below(2) === 0 ? null : { key: KEY, digest: Buffer.alloc(32, dice.below(256)) };
  const events = drafts.map((draft) => ({
    draft,
    lane: dice.one([0, 1, 0xabc]),
    build: draft.sessionId === null ? null : dice.one([null, KEY]),
    state: dice.one(STATES),
    sampleRate: dice.below(4) === 0 ? 1 / (1 + dice.below(9)) : 0,
    reportIds: dice.one([[], [], [SESSION], [KEY, SESSION], Array<string>(40).fill(SESSION)]),
  }));
  const rejected = events.flatMap(({ draft: { index }, state }) =>
    state === 0 ? [{ index, pointer: '', code: 'switched_off' as const, detail: 'é"' }] : [],
  );
  const random = Buffer.from(Array.from({ length: drafts.length * 8 }, () => dice.below(256)));
  return {
    fields: { tenantId: SESSION, projectId: KEY, revision, receivedAt: NOW, idempotency, body },
    ...{ elements, events, random, problems: [...problems, ...rejected], shape: dice.one(SHAPES) },
    schemaId: dice.below(2 ** 31),
  };
}

/** Returns the records and the response of a request. */
export function storedOf(from: EventColumns, { fields, events, random, ...request }: Request): Buffer[] {
  const { idempotency } = fields;
  from.setMissingTimes(NOW);
  const next = new Uint16Array(events.length);
  const ids = Buffer.from(SESSION.repeat(events.length));
  const arrays: EventArrays = {
    columns: from,
    states: events.map(({ state }) => state),
    sampleRates: events.map(({ sampleRate }) => sampleRate),
    lanes: events.map(({ lane }) => lane),
    sessions: events.map(({ build, lane }) =>
      build === null && lane === 0 ? null : { build: build === null ? null : Buffer.from(build) },
    ),
    ...{ next, ids },
  };
  const indexes = from.index.subarray(0, events.length);
  const tails = idempotency === null ? random : keyedTails(fields.projectId, idempotency, indexes);
  writeIds(arrays, { tails, idMillis: idempotency === null ? NOW : millisOf(idempotency.key) });
  const records = new RecordParts(request.shape, next);
  for (const [event, { draft, lane, state }] of events.entries())
    if (isStored(state)) records.add(event, lane, draft.sessionId);
  const hasReports = events.some((one) => one.reportIds.length > 0);
  const reportIds: ReportIds = hasReports
    ? events.map((one) => (one.reportIds.length === 0 ? undefined : one.reportIds))
    : undefined;
  return [
    ...records.all.map((one) => recordOf(arrays, fields, request.schemaId, { ...one, appendId: KEY })),
    answerOf(arrays, fields, reportIds, { ...request, requestId: 'r' }),
  ];
}

function isStored(state: number): boolean {
  return (state & (NEW | SAMPLED_OUT)) === NEW;
}

/** Reads the elements with the schema only. */
export function readTheLongWay(
  bytes: Buffer,
  scanned: readonly ScannedElement[],
  revision: Revision,
): Elements {
  const drafts: Draft[] = [];
  const problems: ElementProblem[] = [];
  scanned.forEach((one, index) => {
    const found = problemsOf(one, revision, index);
    const time = typeof one.occurredAt === 'string' ? parseOccurredAt(one.occurredAt) : undefined;
    if (time?.ok === false) found.push({ ...timestampProblem('occurredAt', time.reason), index });
    problems.push(...found);
    if (found.length > 0) return;
    const isGiven = one.payloadKind === 'object';
    drafts.push({
      index,
      sessionId: typeof one.sessionId === 'string' ? (canonicalUuid(one.sessionId) ?? null) : null,
      buildId: typeof one.buildId === 'string' ? (canonicalUuid(one.buildId) ?? null) : null,
      eventType: String(one.eventType),
      occurredAt: time?.ok === true ? time.micros : null,
      payload: isGiven ? bytes.subarray(one.payloadStart, one.payloadEnd) : Buffer.from('{}'),
      sequence: typeof one.sequence === 'number' ? one.sequence : null,
    });
  });
  return { drafts, problems };
}

const registered = parseSchema<EventsAccepted>(eventsAccepted.schema);

/** Creates the records with avsc, and the response with `JSON.stringify`. */
export function storedTheLongWay({
  fields,
  events,
  random,
  shape,
  schemaId,
  elements,
  problems,
}: Request): Buffer[] {
  const { body: _, ...head } = fields;
  const accepted = events.map(({ draft, lane, build, state, sampleRate, reportIds }, position) => {
    const { index, sessionId, buildId, eventType, payload, sequence } = draft;
    const event: AcceptedEvent = {
      id: (state & NEW_ID) === NEW ? idTheLongWay(fields, random, { index, lane }, position) : SESSION,
      ...{ sessionId, buildId: buildId ?? build, eventType, payload, sequence },
      occurredAt: draft.occurredAt ?? BigInt(NOW) * 1000n,
      overQuota: (state & OVER_QUOTA) !== 0,
      sampleRate: sampleRate === 0 ? null : sampleRate,
    };
    return { index, state, event, reportIds, name: recordName(shape, { index, lane, sessionId }) };
  });
  const records = Map.groupBy(
    accepted.filter(({ state }) => isStored(state)),
    ({ name }) => name,
  );
  const answer = Array.from({ length: elements }, (_, index): Answered => {
    const found = accepted.find((one) => one.index === index && one.state !== 0);
    if (found === undefined) return problems.filter((problem) => problem.index === index);
    const overQuota = fields.revision === 'A' ? found.event.overQuota : undefined;
    return { ...found.event, overQuota, reportIds: found.reportIds };
  });
  const answered = answer.flatMap((one) => ('id' in one ? [one] : []));
  expectSame(eventArray(answered), answerTheLongWay(answered), fields.body);
  for (const one of answered.slice(0, 1)) {
    const linked = { ...one, link: { state: 'linked', source: 'é"' } };
    expectSame(eventObject(linked), answerTheLongWay(linked), fields.body);
  }
  return [
    ...[...records.values()].map((some) => {
      const message = { ...head, appendId: KEY, events: some.map(({ event }) => event) };
      const record = frame(schemaId, registered.toBuffer(message));
      expectSame(eventsAccepted.framed(schemaId, message), record, fields.body);
      return record;
    }),
    answerTheLongWay(answer),
  ];
}

function idTheLongWay(
  { idempotency, projectId, receivedAt }: Request['fields'],
  random: Buffer,
  { index, lane }: { readonly index: number; readonly lane: number },
  position: number,
): string {
  if (idempotency === null) return eventId(receivedAt, lane, random.subarray(position * 8));
  const { key, digest } = idempotency;
  const tail = createHash('sha256').update(`${projectId}/${key}/${index}/`).update(digest).digest();
  return eventId(millisOf(key), lane, tail);
}

type Answered = AnsweredEvent | readonly ElementProblem[];

/** Encodes the response with a placeholder, and then replaces the placeholder with the payload's bytes. */
function answerTheLongWay(answered: Answered | readonly Answered[]): Buffer {
  const payloads: Buffer[] = [];
  const shown = (one: Answered): unknown => {
    if (!('id' in one)) return one[0] && problemOf(one[0].code, one[0].detail, 'r', one);
    const { id, sessionId, buildId, eventType, occurredAt, sequence, reportIds, overQuota, link } = one;
    const payload = `payload ${payloads.push(one.payload) - 1}\u0001`;
    const counted = sequence === null ? {} : { sequence };
    const time = formatMicros(occurredAt);
    return {
      id,
      sessionId,
      buildId,
      eventType,
      occurredAt: time,
      ...counted,
      payload,
      reportIds,
      overQuota,
      link,
    };
  };
  const whole = 'id' in answered ? shown(answered) : (answered as readonly Answered[]).map(shown);
  const text = Buffer.from(JSON.stringify(whole)).toString('latin1');
  const put = text.replace(/"payload (\d+)\\u0001"/g, (_, i) => payloads[i]?.toString('latin1') ?? '');
  return Buffer.from(put, 'latin1');
}

export function expectSame(one: unknown, other: unknown, bytes: Buffer): void {
  if (Buffer.isBuffer(one) && Buffer.isBuffer(other) ? one.equals(other) : isDeepStrictEqual(one, other))
    return;
  expect(one, bytes.toString()).toEqual(other);
  fail('a text or record', bytes);
}

export function fail(what: string, bytes: Buffer, revision?: Revision): never {
  throw new Error(
    `${what} is not as the long way has it${revision ? ` in revision ${revision}` : ''}: ${bytes}`,
  );
}
