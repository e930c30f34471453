/** JSON schemas, as TypeBox writes them, as Markdown. */
import { Timestamp } from '@questlog/schemas/http/fields';
import { code } from './markdown.ts';

/** The meaning of every timestamp, which a page explains once. */
export const TIMESTAMP = String(Reflect.get(Timestamp, 'description'));

/** The part of JSON schema that the HTTP shapes use. */
export interface Shape {
  readonly type?: string;
  readonly format?: string;
  readonly description?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Shape[];
  readonly items?: Shape;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly required?: readonly string[];
  readonly $ref?: string;
}

/** A field of a shape, in words. */
export interface Field {
  readonly name: string;
  readonly isOptional: boolean;
  /** The type in TypeScript notation, with limits. */
  readonly notation: string;
  readonly meaning: string;
}

export function fieldsOf({ properties = {}, required = [] }: Shape): Field[] {
  return Object.entries(properties).map(([name, field]) => {
    const notation = notationOf(field);
    const meaning = notation.startsWith('timestamp') ? '' : descriptionOf(field);
    return { name, isOptional: !required.includes(name), notation, meaning };
  });
}

/** A type in words; a named shape as a link to its heading. */
export function typeOf(shape: Shape): string {
  if (shape.$ref !== undefined) {
    const name = shape.$ref.split('/').at(-1) ?? '';
    // Problems have a page of their own.
    return name === 'Problem' ? '[Problem](problems.md)' : `[${name}](#${name.toLowerCase()})`;
  }
  if (shape.description === TIMESTAMP) return 'timestamp';
  if (shape.anyOf !== undefined) return [...new Set(shape.anyOf.map(typeOf))].join(' or ');
  if (shape.const !== undefined) return code(JSON.stringify(shape.const));
  // A long list is explained in a description.
  if (shape.enum !== undefined)
    return shape.enum.length > 5 ? 'string' : shape.enum.map((one) => code(String(one))).join(' or ');
  if (shape.type === 'array') return arrayOf(shape);
  const fields = Object.keys(shape.properties ?? {});
  if (fields.length > 0) return `object of ${fields.map(code).join(', ')}`;
  const range = shape.minimum === undefined ? '' : ` from ${shape.minimum}${upTo(shape.maximum)}`;
  return (shape.format ?? shape.type ?? 'any') + range;
}

/** Returns a type in TypeScript notation: `uuid|null`, `Event[0..500]`, `integer(1..1000)`, `{title,severity}`. */
function notationOf(shape: Shape): string {
  if (shape.$ref !== undefined) return shape.$ref.split('/').at(-1) ?? '';
  if (shape.description === TIMESTAMP) return 'timestamp';
  if (shape.anyOf !== undefined) return [...new Set(shape.anyOf.map(notationOf))].join('|');
  if (shape.const !== undefined) return JSON.stringify(shape.const);
  if (shape.enum !== undefined)
    return shape.enum.length > 5 ? 'string' : shape.enum.map((one) => JSON.stringify(one)).join('|');
  if (shape.type === 'array') {
    const item = shape.items === undefined ? 'any' : notationOf(shape.items);
    const most = shape.maxItems === undefined ? '' : `0..${shape.maxItems}`;
    return `${item.includes('|') ? `(${item})` : item}[${most}]`;
  }
  const fields = Object.keys(shape.properties ?? {});
  if (fields.length > 0) return `{${fields.join(',')}}`;
  const most = shape.maximum === Number.MAX_SAFE_INTEGER ? '' : (shape.maximum ?? '');
  const range = shape.minimum === undefined ? '' : `(${shape.minimum}..${most})`;
  return (shape.format ?? shape.type ?? 'any') + range;
}

function arrayOf({ items, maxItems }: Shape): string {
  const most = maxItems === undefined ? '' : ` (at most ${maxItems})`;
  return `array of ${items === undefined ? 'any' : typeOf(items)}${most}`;
}

function upTo(maximum: number | undefined): string {
  return maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? '' : ` to ${maximum}`;
}

function descriptionOf({ description, anyOf = [] }: Shape): string {
  return description ?? anyOf.find((one) => one.description !== undefined)?.description ?? '';
}
