/** Evaluates SQL expressions. A time is a number in the unit of its column: microseconds, milliseconds, seconds, or days. */
import { createHash } from 'node:crypto';
import type { Expr, Query } from './parseSql.ts';

export type Row = Readonly<Record<string, unknown>>;

/** Values that an expression can read. */
export interface Scope {
  readonly row: Row;
  /** Row of the other side of a join. */
  readonly joined?: Row;
  /** Rows of the group, each with its joined row. */
  readonly group?: readonly Scope[];
  /** Current element of an array. */
  readonly element?: unknown;
  readonly aliases: ReadonlyMap<string, Compiled>;
  /** True if a name that is a column and an alias means the alias. */
  readonly prefersAlias?: boolean;
  readonly run: Run;
}

/** One execution of a query. */
export interface Run {
  readonly params: Readonly<Record<string, unknown>>;
  /** Sets that are computed once for all rows. */
  readonly sets: Map<Expr, ReadonlySet<unknown>>;
  valuesOf(query: Query): readonly unknown[];
}

export type Compiled = (scope: Scope) => unknown;

export function compile(expr: Expr): Compiled {
  switch (expr.kind) {
    case 'literal':
      return () => expr.value;
    case 'param':
      return ({ run }) => paramOf(run, expr);
    case 'column':
      return compiledColumn(expr);
    case 'field': {
      const of = compile(expr.of);
      return (scope) => asArray(of(scope))[expr.index];
    }
    case 'query':
      return ({ run }) => run.valuesOf(expr.query)[0];
    case 'call':
      return compiledCall(expr.name, expr.args);
  }
}

function compiledColumn({ table, name }: Expr & { kind: 'column' }): Compiled {
  return (scope) => {
    const alias = table === undefined ? scope.aliases.get(name) : undefined;
    if (alias !== undefined && (scope.prefersAlias || !(name in scope.row))) {
      return alias({ ...scope, prefersAlias: false });
    }
    const isOfJoin = scope.joined !== undefined && (table === scope.joined[ALIAS] || !(name in scope.row));
    const row = isOfJoin && scope.joined !== undefined ? scope.joined : scope.row;
    if (!(name in row)) throw new Error(`the simulated ClickHouse knows no column ${table ?? ''}.${name}`);
    return row[name];
  };
}

/** Name under which a joined row stores the alias of its table. */
export const ALIAS = '#alias';

function paramOf({ params }: Run, { name, type }: { name: string; type: string }): unknown {
  const value = params[name];
  if (value === undefined) throw new Error(`the parameter ${name} is missing`);
  const one = (item: unknown): unknown => {
    if (typeof item === 'bigint') return Number(item);
    return type.includes('Date') ? Date.parse(String(item)) / DAY_MS : item;
  };
  return Array.isArray(value) ? value.map(one) : one(value);
}

const DAY_MS = 86_400_000;

function asArray(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new Error(`not an array: ${value}`);
  return value;
}

/** Returns the same key for equal values. */
export function keyOf(value: unknown): unknown {
  return Array.isArray(value) ? value.map(String).join('\n') : value;
}

function compiledCall(name: string, args: readonly Expr[]): Compiled {
  const [first, second] = args;
  if (name === 'IN' && first !== undefined && second !== undefined) return compiledIn(first, second);
  const compiled = args.map(compile);
  const [a = missing, b = missing] = compiled;
  if (name === 'AND') return (scope) => Boolean(a(scope)) && Boolean(b(scope));
  if (name === 'OR') return (scope) => Boolean(a(scope)) || Boolean(b(scope));
  if (name === 'arrayJoin') return (scope) => scope.element;
  // Arrays are empty here, so the function is not applied.
  if (name === 'arrayMap') return b;
  const aggregate = AGGREGATES.get(name);
  if (aggregate !== undefined) {
    return ({ group = [] }) =>
      aggregate(args.length === 0 ? group : group.map(a).filter((value) => value !== null));
  }
  const apply = FUNCTIONS[name];
  if (apply === undefined) throw new Error(`the simulated ClickHouse does not know the function ${name}`);
  if (compiled.length === 2) return (scope) => apply(a(scope), b(scope));
  return (scope) => apply(...compiled.map((arg) => arg(scope)));
}

const missing: Compiled = () => {
  throw new Error('an argument is missing');
};

/** Computes a list or a subquery once for all rows. */
function compiledIn(left: Expr, right: Expr): Compiled {
  const value = compile(left);
  const list = compile(right);
  const membersOf = (scope: Scope): readonly unknown[] => {
    if (right.kind === 'query') return scope.run.valuesOf(right.query);
    const members = list(scope);
    return Array.isArray(members) ? members : [members];
  };
  return (scope) => {
    let set = scope.run.sets.get(right);
    if (set === undefined) {
      set = new Set(membersOf(scope).map(keyOf));
      scope.run.sets.set(right, set);
    }
    return set.has(keyOf(value(scope)));
  };
}

type Apply = (...args: readonly unknown[]) => unknown;

const AGGREGATES: ReadonlyMap<string, (values: readonly unknown[]) => unknown> = new Map(
  Object.entries({
    count: (values: readonly unknown[]) => values.length,
    sum: (values: readonly unknown[]) => values.reduce<number>((sum, value) => sum + Number(value), 0),
    min: (values: readonly unknown[]) => Math.min(...values.map(Number)),
    max: (values: readonly unknown[]) => Math.max(...values.map(Number)),
    maxOrNull: (values: readonly unknown[]) => (values.length === 0 ? null : Math.max(...values.map(Number))),
    minOrNull: (values: readonly unknown[]) => (values.length === 0 ? null : Math.min(...values.map(Number))),
    uniq: (values: readonly unknown[]) => new Set(values).size,
    uniqExact: (values: readonly unknown[]) => new Set(values).size,
    groupArray: (values: readonly unknown[]) => [...values],
    groupUniqArray: (values: readonly unknown[]) => [...new Set(values)],
  }),
);

export function isAggregate(expr: Expr): boolean {
  if (expr.kind !== 'call') return false;
  return AGGREGATES.has(expr.name) || expr.args.some(isAggregate);
}

const compared =
  (test: (a: never, b: never) => boolean): Apply =>
  (a, b) =>
    a !== null &&
    b !== null &&
    (Array.isArray(a) ? test(keyOf(a) as never, keyOf(b) as never) : test(a as never, b as never));
const same: Apply = (value) => value;

const FUNCTIONS: Readonly<Record<string, Apply>> = {
  '=': compared((a, b) => a === b),
  '!=': compared((a, b) => a !== b),
  '<': (a, b) => (Array.isArray(a) ? isBefore(a, asArray(b)) : compared((x, y) => x < y)(a, b)),
  '<=': compared((a, b) => a <= b),
  '>': compared((a, b) => a > b),
  '>=': compared((a, b) => a >= b),
  '*': (a, b) => Number(a) * Number(b),
  '/': (a, b) => Number(a) / Number(b),
  '+': (a, b) => Number(a) + Number(b),
  '-': (a, b) => Number(a) - Number(b),
  '%': (a, b) => Number(a) % Number(b),
  NOT: (a) => !a,
  isNull: (a) => a === null,
  tuple: (...values) => values,
  if: (condition, yes, no) => (condition ? yes : no),
  CAST: same,
  abs: (a) => Math.abs(Number(a)),
  bitNot: (a) => -1 - Number(a),
  concat: (...values) => values.join(''),
  length: (a) => String(a).length,
  lower: (a) => a,
  hex: (a) => (a === null ? null : Buffer.from(String(a), 'latin1').toString('hex')),
  SHA256: (a) => createHash('sha256').update(String(a), 'latin1').digest().toString('latin1'),
  toString: (a: unknown) => String(a),
  toUUID: same,
  arraySort: (a) => [...asArray(a)].sort(),
  arrayZip: (...arrays) => asArray(arrays[0]).map((_, i) => arrays.map((array) => asArray(array)[i])),
  cityHash64: (a) => [...String(a)].reduce((sum, character) => sum + character.charCodeAt(0), 0),
  toUnixTimestamp: same,
  toUnixTimestamp64Micro: same,
  toUnixTimestamp64Milli: same,
  fromUnixTimestamp64Micro: same,
  fromUnixTimestamp64Milli: same,
  toDateTime: same,
  toUInt16: same,
  toInt64: same,
  UUIDv7ToDateTime: (a) => Number.parseInt(String(a).replace('-', '').slice(0, 12), 16),
  // The three functions that change the unit are used with milliseconds only.
  toStartOfMonth: (a) => Date.parse(`${new Date(Number(a)).toISOString().slice(0, 7)}-01`) / DAY_MS,
  toStartOfMinute: (a) => Math.floor(Number(a) / 60_000) * 60,
  formatDateTime: (a) => new Date(Number(a) * DAY_MS).toISOString().slice(0, 7),
};

function isBefore(a: readonly unknown[], b: readonly unknown[]): boolean {
  for (const [i, value] of a.entries()) {
    const other = b[i];
    if (value !== other) return (value as number) < (other as number);
  }
  return false;
}
