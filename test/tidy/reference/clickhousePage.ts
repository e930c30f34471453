/** `docs/reference/clickhouse*.md`: the tables and views as all migrations together leave them, with their comments. */
import { projectFiles, textOf } from '../projectFiles.ts';
import { code, entry, fence, list, page } from './markdown.ts';

const FOLDER = 'deploy/clickhouse';

/** Names of the tables and views for analysts, in the order of the console's list. */
const TABLES_FOR_ANALYSTS = [
  ...textOf('services/console/ui/ask/tablesForAnalysts.ts').matchAll(/'(\w+)'/g),
].map(([, name = '']) => name);

/** Tables that users query through views, and tables for internal use. */
const BEHIND_VIEWS =
  /_(?:by_partition|versions)$|^(?:appends|erased_events|expired_sessions|received_by_process|reject_counts|retention_marks|schema_migrations)$/;

interface Column {
  /** Empty for a view, whose columns have the types of its tables. */
  readonly type: string;
  readonly comment: string;
}

/** A table or a view. */
interface Relation {
  comment: string;
  readonly columns: Map<string, Column>;
  /** Engine, partitioning, and sorting of a table. Empty for a view. */
  readonly engine: string;
}

const [MAIN_PAGE, REPORTS_PAGE, OPERATORS_PAGE] = [
  'clickhouse.md',
  'clickhouse-reports.md',
  'clickhouse-operations.md',
];

/** Returns the texts of the pages by name. */
export function clickhousePages(): Readonly<Record<string, string>> {
  const blocks = new Map<string, string[]>();
  const explained = new Map<string, { place: string; type: string }>();
  const place = (name: string): number => TABLES_FOR_ANALYSTS.indexOf(name) + 1 || Number.POSITIVE_INFINITY;
  const relations = [...relationsOfMigrations()].toSorted(([one], [other]) => place(one) - place(other) || 0);
  for (const [name, relation] of relations) {
    if (BEHIND_VIEWS.test(name)) continue;
    const path = pageOf(name);
    blocks.set(path, [...(blocks.get(path) ?? []), ...blocksOf(name, relation, explained)]);
  }
  const pageText = (path: string, title: string, introduction: readonly string[]) => ({
    [path]: page(title, FOLDER, [...introduction, ...(blocks.get(path) ?? [])]),
  });
  return {
    ...pageText(MAIN_PAGE, 'Tables and views', INTRODUCTION),
    ...pageText(REPORTS_PAGE, 'Tables and views of bug reports', [
      'See [Tables and views](clickhouse.md). The time window of a report starts at `from_micros` and ends at `to_micros`, including both times.',
    ]),
    ...pageText(OPERATORS_PAGE, 'Tables and views for operators', [
      'See [Tables and views](clickhouse.md). The tables `reject_counts`, `received_by_process`, `erased_events`, `expired_sessions`,\n`retention_marks`, and `appends` are for internal use. [deploy/clickhouse](../../deploy/clickhouse) defines all tables.',
    ]),
  };
}

const INTRODUCTION = [
  'These tables and views are for analysts. Further pages describe [the tables of bug reports](clickhouse-reports.md) and\n[the tables for operators](clickhouse-operations.md). ClickHouse also stores the texts of this page as comments. Columns of a view have the types of its tables.',
  'In every table, `tenant_id` and `project_id` are the owner of a row. The record of a row has the position `log_partition`, `log_offset`,\nand `log_index` in the log `log_id`. A log that is created again has another id. Quotas and counts use `received_at`.',
  'Tables whose names end in `_by_partition` or `_versions` can contain outdated rows until a merge, so query their views.',
];

function pageOf(relation: string): string {
  if (!TABLES_FOR_ANALYSTS.includes(relation)) return OPERATORS_PAGE;
  return relation.includes('report') ? REPORTS_PAGE : MAIN_PAGE;
}

function relationsOfMigrations(): Map<string, Relation> {
  // Created by the code that applies the files.
  const relations = new Map<string, Relation>([
    ['schema_migrations', { comment: '', columns: new Map(), engine: '' }],
  ]);
  for (const path of projectFiles().filter(
    (file) => file.startsWith(`${FOLDER}/`) && file.endsWith('.sql'),
  )) {
    for (const statement of textOf(path).split(/^;$/m)) apply(statement, relations, path);
  }
  return relations;
}

/** Columns that the introduction describes, and columns for internal use. */
const EXPLAINED = [
  /^(?:lane|firstness|content_sha256): /,
  /^tenant_id: Tenant(?:; filter by it.*)?$/,
  /^project_id: Project(?:; filter by it.*)?$/,
  /^log_id: Id of the log that contains the record; /,
  /^log_partition: Partition of the topic questlog/,
  /^log_offset: Offset of the record(?:, which.*)?$/,
  /^log_index: /,
];

/** @param explained relation and type of each column that has a line already, by name and meaning; grows. */
function blocksOf(
  name: string,
  relation: Relation,
  explained: Map<string, { place: string; type: string }>,
): string[] {
  const { comment, columns, engine } = relation;
  const lines: string[] = [];
  const elsewhere = new Map<string, string[]>();
  for (const [column, { type, comment: meaning }] of columns) {
    const key = `${column}: ${meaning}`;
    if (EXPLAINED.some((pattern) => pattern.test(key))) continue;
    const first = explained.get(key);
    if (first === undefined) {
      lines.push(entry(`${code(`${name}.${column}`)}${type === '' ? '' : ` ${code(type)}`}`, meaning));
      explained.set(key, { place: name, type });
    } else {
      const shown = type === '' || type === first.type ? code(column) : `${code(column)} ${code(type)}`;
      elsewhere.set(first.place, [...(elsewhere.get(first.place) ?? []), shown]);
    }
  }
  for (const [place, names] of elsewhere) {
    const path = pageOf(place) === pageOf(name) ? '' : pageOf(place);
    lines.push(`[${place}](${path}#${place}) describes these columns: ${names.join(', ')}`);
  }
  return [
    `## ${name}`,
    ...(comment === '' ? [] : [comment]),
    list(lines),
    ...(engine === '' ? [] : [fence('sql', engine.replace(/\s+/g, ' '))]),
  ];
}

function apply(statement: string, relations: Map<string, Relation>, path: string): void {
  const comment = [...statement.matchAll(/^-- ?(?<text>.*)$/gm)]
    .map(({ groups }) => groups?.['text'])
    .join('\n');
  const sql = statement.replace(/^--.*\n/gm, '').trim();
  const made = /^CREATE (?:OR REPLACE )?(?<kind>TABLE|VIEW) (?<name>\w+)/.exec(sql)?.groups;
  const altered = /^ALTER TABLE (?<name>\w+)\s+(?<clauses>[\s\S]*)$/.exec(sql)?.groups;
  const relation = relations.get(altered?.['name'] ?? '');
  if (made?.['kind'] === 'TABLE') relations.set(made['name'] ?? '', { comment, ...tableOf(sql) });
  else if (made !== undefined) relations.set(made['name'] ?? '', { comment, columns: new Map(), engine: '' });
  else if (altered !== undefined && relation !== undefined) {
    for (const clause of (altered['clauses'] ?? '').split(/,\n\s*/)) alter(relation, clause, path);
  } else
    throw new Error(`${path}: the reference knows CREATE TABLE, CREATE VIEW and ALTER TABLE, not: ${sql}`);
}

/** Codecs, settings and indexes are left out: no question depends on them. */
function tableOf(sql: string): Pick<Relation, 'columns' | 'engine'> {
  const [head = '', rest = ''] = sql.split(/^\)\n/m);
  const columns = new Map<string, Column>();
  for (const [, definition = ''] of head.matchAll(/^ {4}(.*?),?$/gm)) {
    if (!definition.startsWith('INDEX ')) addColumn(columns, definition);
  }
  return { columns, engine: rest.replace(/^SETTINGS [^;]*/m, '').trim() };
}

function addColumn(columns: Map<string, Column>, definition: string): void {
  const [, name = '', rest = ''] = /^(\w+) +(.*)$/.exec(definition) ?? [];
  const comment = / COMMENT '(?<text>[^']*)'/.exec(rest)?.groups?.['text'] ?? '';
  columns.set(name, {
    type: rest
      .replace(/ COMMENT '[^']*'/, '')
      .replace(/ AFTER \w+$/, '')
      .replace(/ CODEC\(.*\)$/, ''),
    comment,
  });
}

function alter(relation: Relation, clause: string, path: string): void {
  const { columns } = relation;
  const added = /^(?:ADD COLUMN IF NOT EXISTS|MODIFY COLUMN) (?<definition>[\s\S]*)$/.exec(clause)?.groups?.[
    'definition'
  ];
  const told = /^COMMENT COLUMN (?<name>\w+)\s+'(?<text>[^']*)'$/.exec(clause)?.groups;
  const ofAll = /^MODIFY COMMENT '(?<text>[^']*)'$/.exec(clause)?.groups?.['text'];
  if (ofAll !== undefined) relation.comment = ofAll;
  else if (added !== undefined) addColumn(columns, added);
  else if (told !== undefined) {
    const { name = '', text = '' } = told;
    const column = columns.get(name);
    columns.set(name, { type: column?.type ?? '', comment: text });
  } else if (!/^(?:MODIFY SETTING|ADD INDEX) /.test(clause)) {
    throw new Error(`${path}: the reference does not know the clause ${clause}`);
  }
}
