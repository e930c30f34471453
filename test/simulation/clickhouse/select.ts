/** Runs queries: sources, filters, groups, order, and limits. */
import {
  ALIAS,
  type Compiled,
  compile,
  isAggregate,
  keyOf,
  type Row,
  type Run,
  type Scope,
} from './expressions.ts';
import type { Expr, Item, Query, Select, Source } from './parseSql.ts';

/** Source of the rows of tables and views. */
export interface Catalog {
  rowsOf(table: string, isFinal: boolean): readonly Row[];
  viewOf(name: string): Query | undefined;
}

/** Returns rows as objects with the names of the selected columns. */
export function runQuery(query: Query, catalog: Catalog, params: Run['params']): Row[] {
  return new QueryRun(catalog, params).rows(query);
}

interface Plan {
  readonly items: readonly { readonly name: string; readonly value: Compiled }[];
  readonly aliases: ReadonlyMap<string, Compiled>;
  readonly where: Compiled | undefined;
  readonly on: Compiled | undefined;
  readonly groupBy: readonly Compiled[] | undefined;
  readonly orderBy: readonly { readonly value: Compiled; readonly isDescending: boolean }[];
  readonly limitBy: { readonly limit: Compiled; readonly by: readonly Compiled[] } | undefined;
  readonly limit: Compiled | undefined;
  /** Argument of `arrayJoin`. Undefined if the query has none. */
  readonly elements: Compiled | undefined;
}

const plans = new WeakMap<Select, Plan>();

class QueryRun implements Run {
  readonly params: Run['params'];
  readonly sets: Run['sets'] = new Map();
  readonly #catalog: Catalog;
  readonly #named = new Map<string, Query>();

  constructor(catalog: Catalog, params: Run['params']) {
    this.#catalog = catalog;
    this.params = params;
  }

  rows({ named, selects }: Query): Row[] {
    for (const [name, query] of named) this.#named.set(name, query);
    const rows = selects.flatMap((select) => this.#select(select));
    return selects.length === 1 ? rows : distinct(rows);
  }

  /** Returns the values of one column, or tuples of several. */
  valuesOf(query: Query): readonly unknown[] {
    return this.rows(query).map((row) => {
      const values = Object.values(row);
      return values.length === 1 ? values[0] : values;
    });
  }

  #select(select: Select): Row[] {
    const plan = planOf(select);
    let scopes = this.#scopes(select, plan);
    const { where, groupBy, limitBy, limit } = plan;
    if (where !== undefined) scopes = scopes.filter((scope) => Boolean(where(scope)));
    if (groupBy !== undefined) scopes = this.#grouped(scopes, groupBy);
    scopes = sorted(
      scopes.map((scope) => ({ ...scope, prefersAlias: true })),
      plan.orderBy,
    );
    if (limitBy !== undefined) scopes = firstOfEach(scopes, limitBy.by);
    let rows = scopes.map((scope) => itemsOf(select, plan, { ...scope, prefersAlias: false }));
    if (select.isDistinct) rows = distinct(rows);
    return limit === undefined ? rows : rows.slice(0, Number(limit(this.#scope({}, plan))));
  }

  #scope(row: Row, { aliases }: Plan): Scope {
    return { row, aliases, run: this };
  }

  #scopes({ source, join }: Select, plan: Plan): Scope[] {
    let scopes = (source === undefined ? [{}] : this.#rowsOf(source)).map((row) => this.#scope(row, plan));
    if (join !== undefined) {
      const { on } = plan;
      const others = this.#rowsOf(join.source).map((row) => ({ ...row, [ALIAS]: join.source.alias }));
      scopes = scopes
        .flatMap((scope) => others.map((joined) => ({ ...scope, joined })))
        .filter((scope) => on?.(scope));
    }
    const { elements } = plan;
    if (elements === undefined) return scopes;
    return scopes.flatMap((scope) =>
      (elements(scope) as unknown[]).map((element) => ({ ...scope, element })),
    );
  }

  #rowsOf({ from, isFinal }: Source): readonly Row[] {
    if (typeof from !== 'string') return this.rows(from);
    const query = this.#named.get(from) ?? this.#catalog.viewOf(from);
    return query === undefined ? this.#catalog.rowsOf(from, isFinal) : this.rows(query);
  }

  #grouped(scopes: readonly Scope[], by: readonly Compiled[]): Scope[] {
    if (by.length === 0) {
      const [first] = scopes;
      return [{ ...(first ?? { row: {}, aliases: new Map(), run: this }), group: scopes }];
    }
    const groups = Map.groupBy(scopes, (scope) => keyOf(by.map((value) => value(scope))));
    return [...groups.values()].flatMap((group) => (group[0] === undefined ? [] : [{ ...group[0], group }]));
  }
}

function planOf(select: Select): Plan {
  let plan = plans.get(select);
  if (plan === undefined) {
    plan = madePlan(select);
    plans.set(select, plan);
  }
  return plan;
}

function madePlan(select: Select): Plan {
  const { items, where, join, groupBy, orderBy, limitBy, limit } = select;
  const compiled = items.map((item, i) => ({ name: nameOf(item, i), value: compile(item.expr) }));
  const isAggregated = items.some(({ expr }) => isAggregate(expr));
  const [elements] = items.flatMap(({ expr }) => arrayJoinsIn(expr));
  return {
    items: compiled,
    aliases: new Map(compiled.map(({ name, value }) => [name, value])),
    where: where && compile(where),
    on: join && compile(join.on),
    groupBy: groupBy?.map(compile) ?? (isAggregated ? [] : undefined),
    orderBy: orderBy.map(({ expr, isDescending }) => ({ value: compile(expr), isDescending })),
    limitBy: limitBy && { limit: compile(limitBy.limit), by: limitBy.by.map(compile) },
    limit: limit && compile(limit),
    elements: elements && compile(elements),
  };
}

function nameOf({ name }: Item, index: number): string {
  return name ?? `#${index}`;
}

function arrayJoinsIn(expr: Expr): Expr[] {
  if (expr.kind === 'field') return arrayJoinsIn(expr.of);
  if (expr.kind !== 'call') return [];
  const [first] = expr.args;
  return expr.name === 'arrayJoin' && first !== undefined ? [first] : expr.args.flatMap(arrayJoinsIn);
}

function itemsOf({ isStar }: Select, { items }: Plan, scope: Scope): Row {
  const row: Record<string, unknown> = isStar ? { ...scope.row } : {};
  for (const { name, value } of items) row[name] = value(scope);
  return row;
}

function distinct(rows: readonly Row[]): Row[] {
  return [...new Map(rows.map((row) => [keyOf(Object.values(row)), row])).values()];
}

function firstOfEach(scopes: readonly Scope[], by: readonly Compiled[]): Scope[] {
  const first = new Map<unknown, Scope>();
  for (const scope of scopes) {
    const key = keyOf(by.map((value) => value(scope)));
    if (!first.has(key)) first.set(key, scope);
  }
  return [...first.values()];
}

function sorted(scopes: Scope[], orderBy: Plan['orderBy']): Scope[] {
  if (orderBy.length === 0) return scopes;
  const keyed = scopes.map((scope) => ({ scope, keys: orderBy.map(({ value }) => value(scope)) }));
  keyed.sort((a, b) => {
    for (const [i, { isDescending }] of orderBy.entries()) {
      const [x, y] = [a.keys[i] as number, b.keys[i] as number];
      if (x !== y) return x < y === isDescending ? 1 : -1;
    }
    return 0;
  });
  return keyed.map(({ scope }) => scope);
}
