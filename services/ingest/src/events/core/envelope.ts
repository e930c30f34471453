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
  scanned.forEach((element, index) => {
    const found = problemsOf(element, revision, index);
    const occurredAt =
      typeof element.occurredAt === 'string' ? parseOccurredAt(element.occurredAt) : undefined;
    if (occurredAt?.ok === false) found.push({ ...timestampProblem('occurredAt', occurredAt.reason), index });
    if (found.length > 0 || typeof element.eventType !== 'string') {
      problems.push(...found);
      return;
    }
    drafts.push({
      index,
      sessionId: uuidOf(element.sessionId),
      buildId: uuidOf(element.buildId),
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

/** Returns the UUID in lower case. Null if the field is not a UUID. */
function uuidOf(field: StringField): string | null {
  return typeof field === 'string' ? (canonicalUuid(field) ?? null) : null;
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
