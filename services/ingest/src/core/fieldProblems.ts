/** Checks the fields of a body: each that is wrong is one problem. Pure. */
import type { ElementProblem, ProblemCode } from '@questlog/schemas/http/problem';
import { Rejected } from '../rejected.ts';
import { parseOccurredAt } from './occurredAt.ts';

/** The part of a TypeBox error that is used here. */
export interface SchemaError {
  readonly keyword: string;
  readonly instancePath: string;
  readonly params: object;
  readonly message: string;
}

/** What TypeBox finds wrong. `index` is 0. */
export function fieldProblems(errors: readonly SchemaError[]): ElementProblem[] {
  return onePerPointer(errors.flatMap(problemsOf));
}

/** A timestamp whose schema takes any string, in microseconds since the epoch. @throws Rejected naming the field. */
export function timestampField(field: string, text: string): bigint {
  const parsed = parseOccurredAt(text);
  if (parsed.ok) return parsed.micros;
  const error = timestampProblem(field, parsed.reason);
  throw new Rejected('invalid_request', error.detail, { errors: [error] });
}

/** @param reason what `parseOccurredAt` says of the field's text. */
export function timestampProblem(field: string, reason: 'format' | 'range'): ElementProblem {
  return reason === 'range'
    ? problem(`/${field}`, 'timestamp_out_of_range', `${field} must lie in the years 1900 to 2299`)
    : problem(`/${field}`, 'invalid_timestamp', `${field} must be an ISO 8601 timestamp`);
}

function problemsOf(error: SchemaError): ElementProblem[] {
  const required: unknown = Reflect.get(error.params, 'requiredProperties');
  const field = error.instancePath.slice(1).replaceAll('/', '.');
  if (error.keyword === 'required' && Array.isArray(required)) {
    const inside = field === '' ? '' : `${field}.`;
    return required.map((name) => {
      return problem(`${error.instancePath}/${name}`, 'field_required', `${inside}${name} is required`);
    });
  }
  const schemaSaysUuid = error.keyword === 'format' || error.keyword === 'pattern';
  if (schemaSaysUuid) return [problem(error.instancePath, 'invalid_uuid', `${field} must be a UUID`)];
  // Said of each field that a closed schema does not have, and once more of the object that has it.
  if (error.keyword === 'boolean') {
    return [problem(error.instancePath, 'field_invalid', `there is no field ${field}`)];
  }
  if (error.keyword === 'additionalProperties') return [];
  const allowed: unknown = Reflect.get(error.params, 'allowedValues');
  if (Array.isArray(allowed)) {
    return [problem(error.instancePath, 'field_invalid', `${field} must be one of ${allowed.join(', ')}`)];
  }
  const code = error.keyword === 'type' ? 'field_type' : 'field_invalid';
  return [problem(error.instancePath, code, `${field} ${error.message}`)];
}

function problem(pointer: string, code: ProblemCode, detail: string): ElementProblem {
  return { index: 0, pointer, code, detail };
}

/** The first of each. */
function onePerPointer(errors: readonly ElementProblem[]): ElementProblem[] {
  return [...new Map(errors.toReversed().map((error) => [error.pointer, error])).values()].toReversed();
}
