/** What a client is told of fields that the contract does not have. Pure. */
import { nearestName } from '@questlog/runtime/process/nearestName';
import type { ElementProblem } from '@questlog/schemas/http/problem';
import { pointerTo } from './scanValue.ts';

export interface UnknownField {
  /** Position in the request's array; 0 where there is none. */
  readonly index: number;
  /** JSON pointer (RFC 6901) into the element. */
  readonly pointer: string;
}

const MAX_EDITS = 2;
const MAX_NAMED = 10;
/** Of a longer name the begin tells enough. */
const MAX_CHARACTERS = 64;

/** Each as a problem that also names the field of the schema which was probably meant. */
export function unknownFieldProblems(unknown: readonly UnknownField[], schema: object): ElementProblem[] {
  return unknown.map(({ index, pointer }) => {
    const path = pathOf(pointer);
    const name = path.at(-1) ?? '';
    const suggestion = nearestName(name, fieldsAt(schema, path.slice(0, -1)), MAX_EDITS);
    const hint = suggestion === undefined ? '' : `; is ${suggestion} meant?`;
    return { index, pointer, code: 'field_unknown', detail: `there is no field ${path.join('.')}${hint}` };
  });
}

/** A field that is missing is often there under nearly its name: then its problem says so. */
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
    return { ...problem, detail: `${problem.detail}; is it what ${pathOf(near.pointer).at(-1)} means?` };
  });
}

/** The first members of a parsed body that its schema does not have. */
export function unknownMembers(body: unknown, schema: { readonly properties: object }): string[] {
  const unknown = Object.keys(Object(body)).filter((name) => !Object.hasOwn(schema.properties, name));
  return unknown.slice(0, MAX_NAMED).map((name) => pointerTo(name.slice(0, MAX_CHARACTERS)));
}

/** Of a body that is one object. */
export function unknownOf(pointers: readonly string[]): UnknownField[] {
  return pointers.map((pointer) => ({ index: 0, pointer }));
}

/** The fields that a schema has inside these; of an array, those of its elements. */
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

/** The names and indexes that a JSON pointer leads through. RFC 6901, section 4. */
export function pathOf(pointer: string): string[] {
  const steps = pointer.split('/').slice(1);
  return steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
}

const MAX_BYTES = 1024;

/**
 * The value of `Questlog-Ignored-Fields`: a list of strings (RFC 9651), each a JSON pointer as it stands in a URI's
 * fragment (RFC 6901, section 6), so that every name fits a header.
 */
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
