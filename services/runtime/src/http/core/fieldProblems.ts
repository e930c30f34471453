/** Checks the fields of a request body and returns one problem for each invalid field. */

import { MAX_DEPTH } from '@questlog/schemas/http/event';
import { EXAMPLE_SESSION, EXAMPLE_TIME } from '@questlog/schemas/http/fields';
import { type ElementProblem, type ProblemCode, statusOf } from '@questlog/schemas/http/problem';
import { parseOccurredAt } from '@questlog/schemas/isoTime';
import { Rejected } from '../rejected.ts';
import type { ObjectScan, ScannedObject } from './scanObject.ts';
import { pathOf } from './unknownFields.ts';

interface SchemaError {
  readonly keyword: string;
  readonly schemaPath: string;
  readonly instancePath: string;
  readonly params: object;
  readonly message: string;
}

interface SchemaChecker {
  Errors(value: unknown): readonly SchemaError[];
  Type(): object;
}

/** Returns one problem for each invalid field of a body that is a single object. */
export function fieldProblems(checker: SchemaChecker, value: unknown): ElementProblem[] {
  const schema = checker.Type();
  return onePerPointer(checker.Errors(value).flatMap((error) => problemsOf(error, schema)));
}

/** @throws Rejected with the name of the field if the text is not a valid timestamp. */
export function timestampField(field: string, text: string): bigint {
  const parsed = parseOccurredAt(text);
  if (parsed.ok) return parsed.micros;
  throw rejectionOf(timestampProblem(field, parsed.reason));
}

export function timestampProblem(field: string, reason: 'format' | 'range'): ElementProblem {
  return reason === 'range'
    ? problem(`/${field}`, 'timestamp_out_of_range', `${field} must be in the years 1900 to 2299`)
    : problem(
        `/${field}`,
        'invalid_timestamp',
        `${field} must be an ISO 8601 timestamp, such as ${EXAMPLE_TIME}`,
      );
}

/** Returns the time of a field in microseconds since the epoch. Null if the field is omitted or invalid. */
export function timestampIn(
  field: string,
  text: string | undefined,
  problems: ElementProblem[],
): bigint | null {
  if (text === undefined) return null;
  const parsed = parseOccurredAt(text);
  if (parsed.ok) return parsed.micros;
  problems.push(timestampProblem(field, parsed.reason));
  return null;
}

/** @throws Rejected if the body is not a JSON object */
export function objectOf(scan: ObjectScan): ScannedObject {
  if (!scan.ok) throw notJson(scan);
  if (scan.kind === 'object') return scan.object;
  throw new Rejected('invalid_request', `the body must be an object, not a value of type ${scan.kind}`);
}

export function notJson({ offset, detail }: { offset: number; detail: string }): Rejected {
  return new Rejected('invalid_json', `at byte ${offset}: ${detail}`, { failedAt: offset });
}

export function structureProblems({ repeated, tooDeep }: ScannedObject): ElementProblem[] {
  return [
    ...[...repeated].map((pointer) =>
      problem(pointer, 'field_repeated', `${nameOf(pointer)} occurs more than once`),
    ),
    ...tooDeep.map((pointer) =>
      problem(pointer, 'nested_too_deep', `a value may have at most ${MAX_DEPTH} levels of nesting`),
    ),
  ];
}

interface Checker<T> extends SchemaChecker {
  Check(value: unknown): value is T;
}

/** Returns all problems of a body, and the valid fields of the body for further checks. */
export function checkedFields<T extends object>(
  schema: Checker<T>,
  fields: Readonly<Record<string, unknown>>,
  knownProblems: readonly ElementProblem[] = [],
): { value: Partial<T>; problems: ElementProblem[] } {
  const problems = [...knownProblems, ...(schema.Check(fields) ? [] : fieldProblems(schema, fields))];
  const bad = new Set(problems.map(({ pointer }) => pointer.split('/')[1]));
  const good = Object.fromEntries(Object.entries(fields).filter(([name]) => !bad.has(name)));
  return { value: schema.Check(good) ? good : {}, problems };
}

export function loneSurrogates(fields: object, inside = ''): ElementProblem[] {
  return Object.entries(fields).flatMap(([name, value]) => {
    const pointer = `${inside}/${name}`;
    if (isObject(value)) return loneSurrogates(value, pointer);
    if (typeof value !== 'string' || value.isWellFormed()) return [];
    const detail = `${nameOf(pointer)} contains a lone surrogate, which UTF-8 cannot represent`;
    return [problem(pointer, 'lone_surrogate', detail)];
  });
}

export function sizeProblems(pointer: string, bytes: number, maxBytes: number): ElementProblem[] {
  const detail = `${nameOf(pointer)} may have at most ${maxBytes} bytes; this one has ${bytes}`;
  return bytes > maxBytes ? [problem(pointer, 'field_too_large', detail)] : [];
}

/** Returns a rejection with all problems of a body. If their statuses differ, 400 takes precedence over 413, 403, and 404. */
export function bodyRejection(errors: readonly ElementProblem[]): Rejected {
  const status = [400, 413, 403, 404].find((one) => errors.some(({ code }) => statusOf(code) === one));
  const decisive = errors.filter(({ code }) => statusOf(code) === status);
  const [first] = decisive;
  const codes = new Set(decisive.map(({ code }) => code));
  // If problems with status 400 have different codes, the rejection has the code `invalid_request`.
  const isOneKind = codes.size === 1 && (status !== 400 || codes.has('empty_report'));
  const code = status === 400 && !isOneKind ? 'invalid_request' : (first?.code ?? 'invalid_request');
  const more = errors.length === 1 ? '' : ` (and ${errors.length - 1} more)`;
  return new Rejected(code, `${first?.detail ?? 'the body is not valid'}${more}; nothing was stored`, {
    errors,
  });
}

export function rejectionOf(error: ElementProblem, code: ProblemCode = 'invalid_request'): Rejected {
  return new Rejected(code, error.detail, { errors: [error] });
}

export function problem(pointer: string, code: ProblemCode, detail: string): ElementProblem {
  return { index: 0, pointer, code, detail };
}

export function uuidProblem(pointer: string): ElementProblem {
  return problem(pointer, 'invalid_uuid', `${nameOf(pointer)} must be a UUID, such as ${EXAMPLE_SESSION}`);
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function problemsOf(error: SchemaError, schema: object): ElementProblem[] {
  const required: unknown = Reflect.get(error.params, 'requiredProperties');
  const field = nameOf(error.instancePath);
  if (error.keyword === 'required' && Array.isArray(required)) {
    const inside = field === '' ? '' : `${field}.`;
    return required.map((name) => {
      return problem(`${error.instancePath}/${name}`, 'field_required', `${inside}${name} is required`);
    });
  }
  const schemaSaysUuid = error.keyword === 'format' || error.keyword === 'pattern';
  if (schemaSaysUuid) return [uuidProblem(error.instancePath)];
  // TypeBox reports each unknown field two times. The report with the keyword `additionalProperties` is ignored.
  if (error.keyword === 'boolean') {
    return [problem(error.instancePath, 'field_invalid', `there is no field ${field}`)];
  }
  if (error.keyword === 'additionalProperties') return [];
  const allowed: unknown = Reflect.get(error.params, 'allowedValues');
  if (Array.isArray(allowed)) {
    return [problem(error.instancePath, 'field_invalid', `${field} must be one of ${allowed.join(', ')}`)];
  }
  if (error.keyword !== 'type') {
    return [problem(error.instancePath, 'field_invalid', `${field} ${error.message}`)];
  }
  const type = TYPES[String(Reflect.get(error.params, 'type'))];
  const example = exampleAt(schema, error.schemaPath);
  const must = type === undefined ? error.message : `must be ${type}${example}`;
  return [problem(error.instancePath, 'field_type', `${field} ${must}`)];
}

/** Returns an example value for an error message. Empty if the format of the field needs no example. */
function exampleAt(schema: object, schemaPath: string): string {
  const path = pathOf(schemaPath);
  const found = path.reduce<unknown>((at, step) => Reflect.get(Object(at), step), schema);
  const format: unknown = Reflect.get(Object(found), 'format');
  const [, example] = Object.entries(EXAMPLES).find(([name]) => name === format) ?? [];
  return example === undefined ? '' : ` such as "${example}"`;
}

const EXAMPLES = { uuid: EXAMPLE_SESSION, 'iso-8601': EXAMPLE_TIME } as const;

const TYPES: Readonly<Record<string, string>> = {
  array: 'an array',
  boolean: 'true or false',
  integer: 'a whole number',
  number: 'a number',
  object: 'an object',
  string: 'a string',
};

function nameOf(pointer: string): string {
  return pointer.slice(1).replaceAll('/', '.');
}

function onePerPointer(errors: readonly ElementProblem[]): ElementProblem[] {
  return [...new Map(errors.toReversed().map((error) => [error.pointer, error])).values()].toReversed();
}
