/** Converts each scanned element of a request to a draft (an event without an id) or to a list of problems. Pure. */

import { fieldProblems, timestampProblem } from '@questlog/runtime/http/core/fieldProblems';
import { SAMPLES } from '@questlog/runtime/http/core/scanObject';
import { EVENT_INPUT, LIMITS, MAX_DEPTH } from '@questlog/schemas/http/event';
import type { ElementProblem, ProblemCode } from '@questlog/schemas/http/problem';
import { parseOccurredAt } from '@questlog/schemas/isoTime';
import type { AcceptedEvent, Revision } from '@questlog/schemas/topics/eventsAccepted';
import { canonicalUuid } from '@questlog/schemas/uuid';
import { Compile, type Validator } from 'typebox/compile';
import type { SentTime } from '../../core/clockSkew.ts';
import type { NumberField, ScannedElement, StringField } from './scanElement.ts';

/** Valid element of a request. The payload is a slice of the request body. */
export interface Draft
  extends Pick<AcceptedEvent, 'sessionId' | 'buildId' | 'eventType' | 'payload' | 'sequence'> {
  readonly index: number;
  /** Time of the event in microseconds since the epoch. Null if the element has no time. */
  readonly occurredAt: bigint | null;
}

export interface Elements {
  readonly drafts: readonly Draft[];
  readonly problems: readonly ElementProblem[];
}

const validators: Readonly<Record<Revision, Validator>> = {
  A: Compile(EVENT_INPUT.A),
  B: Compile(EVENT_INPUT.B),
};
const NO_PAYLOAD = Buffer.from('{}');

export function readElements(body: Buffer, scanned: readonly ScannedElement[], revision: Revision): Elements {
  const drafts: Draft[] = [];
  const problems: ElementProblem[] = [];
  const uuids = new Uuids();
  scanned.forEach((element, index) => {
    const found = isValid(element, revision, uuids) ? [] : problemsOf(element, revision, index);
    const occurredAt =
      typeof element.occurredAt === 'string' ? parseOccurredAt(element.occurredAt) : undefined;
    if (occurredAt?.ok === false) found.push({ ...timestampProblem('occurredAt', occurredAt.reason), index });
    if (found.length > 0 || typeof element.eventType !== 'string') {
      problems.push(...found);
      return;
    }
    drafts.push({
      index,
      sessionId: uuids.of(element.sessionId),
      buildId: uuids.of(element.buildId),
      eventType: element.eventType,
      occurredAt: occurredAt?.ok === true ? occurredAt.micros : null,
      payload:
        element.payloadKind === 'object'
          ? body.subarray(element.payloadStart, element.payloadEnd)
          : NO_PAYLOAD,
      sequence: typeof element.sequence === 'number' ? element.sequence : null,
    });
  });
  return { drafts, problems };
}

export function timesOf(drafts: readonly Draft[], scanned: readonly ScannedElement[]): SentTime[] {
  return drafts.flatMap(({ index, occurredAt }) => {
    const text = scanned[index]?.occurredAt;
    if (occurredAt === null || typeof text !== 'string') return [];
    return [{ index, pointer: '/occurredAt', text, micros: occurredAt }];
  });
}

/** True if all fields of an element are valid, except for the time. This check is several times faster than a schema check. */
export function isValid(element: ScannedElement, revision: Revision, uuids: Uuids): boolean {
  const { sessionId, buildId, eventType, occurredAt, payloadKind, sequence } = element;
  return (
    element.kind === 'object' &&
    element.end - element.start <= LIMITS.maxEventBytes &&
    element.repeated.length === 0 &&
    element.loneSurrogate.length === 0 &&
    element.tooDeep === undefined &&
    (uuids.of(sessionId) !== null || (revision === 'B' && isOmitted(sessionId))) &&
    (isOmitted(buildId) || uuids.of(buildId) !== null) &&
    typeof eventType === 'string' &&
    (typeof occurredAt === 'string' || isOmitted(occurredAt)) &&
    (payloadKind === 'object' || payloadKind === 'null' || payloadKind === undefined) &&
    (isOmitted(sequence) || (Number.isSafeInteger(sequence) && Number(sequence) >= 1))
  );
}

/** True if an optional field is absent or `null`. */
function isOmitted(field: StringField | NumberField): boolean {
  return field === undefined || (typeof field === 'object' && field.kind === 'null');
}

export class Uuids {
  readonly #canonical = new Map<string, string | null>();

  /** Returns the UUID in lower case. Null if the field is not a UUID. */
  of(field: StringField): string | null {
    if (typeof field !== 'string') return null;
    const known = this.#canonical.get(field);
    if (known !== undefined) return known;
    const canonical = canonicalUuid(field) ?? null;
    this.#canonical.set(field, canonical);
    return canonical;
  }
}

export function problemsOf(element: ScannedElement, revision: Revision, index: number): ElementProblem[] {
  const problems: ElementProblem[] = [];
  const add = (pointer: string, code: ProblemCode, detail: string): void => {
    problems.push({ index, pointer, code, detail });
  };
  if (element.end - element.start > LIMITS.maxEventBytes) {
    add(
      '',
      'event_too_large',
      `an event may have at most ${LIMITS.maxEventBytes} bytes; this one has ${element.end - element.start}`,
    );
  }
  if (element.kind !== 'object') {
    add('', 'field_type', `an event must be an object, not a value of type ${element.kind}`);
    return problems;
  }
  for (const field of element.repeated) add(`/${field}`, 'field_repeated', `${field} occurs more than once`);
  for (const field of element.loneSurrogate) {
    add(`/${field}`, 'lone_surrogate', `${field} contains a lone surrogate, which UTF-8 cannot represent`);
  }
  if (element.tooDeep !== undefined) {
    add(element.tooDeep, 'nested_too_deep', `a value may have at most ${MAX_DEPTH} levels of nesting`);
  }
  const envelope = envelopeOf(element);
  const validator = validators[revision];
  if (validator.Check(envelope)) return problems;
  return [...problems, ...fieldProblems(validator, envelope).map((found) => ({ ...found, index }))];
}

function envelopeOf(element: ScannedElement): Record<string, unknown> {
  const envelope: Record<string, unknown> = {};
  addField(envelope, 'sessionId', element.sessionId, true);
  addField(envelope, 'buildId', element.buildId, true);
  addField(envelope, 'eventType', element.eventType, false);
  addField(envelope, 'occurredAt', element.occurredAt, true);
  addField(envelope, 'sequence', element.sequence, true);
  if (element.payloadKind !== undefined && element.payloadKind !== 'null') {
    envelope['payload'] = SAMPLES[element.payloadKind];
  }
  return envelope;
}

function addField(
  envelope: Record<string, unknown>,
  name: string,
  field: StringField | NumberField,
  nullable: boolean,
): void {
  if (field === undefined) return;
  if (typeof field !== 'object') envelope[name] = field;
  else if (field.kind !== 'null' || !nullable) envelope[name] = SAMPLES[field.kind];
}
