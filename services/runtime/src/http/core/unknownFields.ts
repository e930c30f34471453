/** Reports fields that the API contract does not define. */

import type { ElementProblem } from '@questlog/schemas/http/problem';
import { nearestName } from '../../process/nearestName.ts';
import { pointerTo } from './scanValue.ts';

export interface UnknownField {
  /** Index of the element in the array of the request. The index is 0 if the body is a single object. */
  readonly index: number;
  /** JSON pointer (RFC 6901) relative to the element. */
  readonly pointer: string;
}

const MAX_EDITS = 2;
const MAX_NAMED = 10;
const MAX_CHARACTERS = 64;

/** Returns a problem for each unknown field. The problem suggests a known field with a similar name. */
export function unknownFieldProblems(unknown: readonly UnknownField[], schema: object): ElementProblem[] {
  return unknown.map(({ index, pointer }) => {
    const path = pathOf(pointer);
    const name = path.at(-1) ?? '';
    const suggestion = nearestName(name, fieldsAt(schema, path.slice(0, -1)), MAX_EDITS);
    const hint = suggestion === undefined ? '' : `; is ${suggestion} meant?`;
    return { index, pointer, code: 'field_unknown', detail: `there is no field ${path.join('.')}${hint}` };
  });
}

/** Suggests the right name if a required field is missing and the element has an unknown field with a similar name. */
export function withNearMisses(
  problems: readonly ElementProblem[],
  unknown: readonly UnknownField[],
): ElementProblem[] {
  return problems.map((problem) => {
    if (problem.code !== 'field_required') return problem;
    const path = pathOf(problem.pointer);
    const [name = '', inside] = [path.at(-1), path.slice(0, -1).join('/')];
    const near = unknown.find(({ index, pointer }) => {
      const other = pathOf(pointer);
      const isSibling = index === problem.index && other.slice(0, -1).join('/') === inside;
      return isSibling && nearestName(other.at(-1) ?? '', [name], MAX_EDITS) !== undefined;
    });
    if (near === undefined) return problem;
    return {
      ...problem,
      detail: `${problem.detail}; ${pathOf(near.pointer).at(-1)} looks like a misspelling of it`,
    };
  });
}

export function unknownMembers(body: unknown, schema: { readonly properties: object }): string[] {
  const unknown = Object.keys(Object(body)).filter((name) => !Object.hasOwn(schema.properties, name));
  return unknown.slice(0, MAX_NAMED).map((name) => pointerTo(name.slice(0, MAX_CHARACTERS)));
}

export function unknownOf(pointers: readonly string[]): UnknownField[] {
  return pointers.map((pointer) => ({ index: 0, pointer }));
}

/** Returns the field names of the schema at a path. At an array, returns the field names of its elements. */
function fieldsAt(schema: unknown, path: readonly string[]): string[] {
  let at: unknown = schema;
  for (const step of path) at = memberOf(memberOf(at, 'properties'), step) ?? memberOf(at, 'items');
  return Object.keys(memberOf(at, 'properties') ?? {});
}

function memberOf(value: unknown, name: string): object | undefined {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  const member: unknown = Reflect.get(value, name);
  return typeof member === 'object' && member !== null ? member : undefined;
}

/** Splits a JSON pointer (RFC 6901, section 4) into unescaped names. */
export function pathOf(pointer: string): string[] {
  const steps = pointer.split('/').slice(1);
  return steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
}

const MAX_BYTES = 1024;

/** Returns a header with a list of JSON pointers (RFC 9651). The pointers are URI fragments (RFC 6901, section 6). */
export function ignoredFieldsHeader(pointers: Iterable<string>): string {
  let list = '';
  for (const pointer of [...new Set(pointers)].slice(0, MAX_NAMED)) {
    const text = encodeURI(pointer.slice(0, MAX_CHARACTERS).toWellFormed());
    const next = `${list}${list === '' ? '' : ', '}"${text}"`;
    if (next.length > MAX_BYTES) break;
    list = next;
  }
  return list;
}
