/**
 * Restricts the statements of an account that reads only the rows of one studio. Row policies of the engine select the rows,
 * also inside views, joins, and subqueries. The checks in this file reject statements that reveal how many rows or bytes all
 * studios together have, because the engine's permissions cannot hide these figures.
 */
import { STUDIO_RULES, type StudioReader } from '../../studioTables.ts';
import { isReaderSetting, tokensOf, words } from './readerAccess.ts';

type Scope = Pick<StudioReader, 'tenantId' | 'projectId'>;

/**
 * Returns the value of the setting `log_comment` for a statement of a studio. The row policies read the tenant and the project
 * from this setting, which a reader cannot change.
 */
export function studioComment(queryTag: string, { tenantId, projectId }: Scope): string {
  return `${queryTag} ${tenantId} ${projectId ?? ''}`;
}

/**
 * Returns the conditions of the row policies by table. A policy applies to every role of the engine's only user, so its
 * condition is true for the given roles, which read all rows.
 */
export function studioFilters(unrestrictedRoles: readonly string[]): [table: string, condition: string][] {
  const [tenant, project] = [2, 3].map((at) => `splitByChar(' ', getSetting('log_comment'))[${at}]`);
  const isTenant = `tenant_id = toUUIDOrNull(${tenant})`;
  const conditions = {
    project: `${isTenant} AND (${project} = '' OR project_id = toUUIDOrNull(${project}))`,
    tenant: `${isTenant} AND ${project} = ''`,
  };
  const roles = unrestrictedRoles.map((role) => `'${role}'`).join(', ');
  return Object.entries(STUDIO_RULES).flatMap(([table, rule]) =>
    rule === 'view' || rule === 'hidden'
      ? []
      : [[table, `hasAny(currentRoles(), [${roles}]) OR (${conditions[rule]})`]],
  );
}

/**
 * Settings of every statement of a studio. The engine checks the row policy before any other condition, so that an error
 * message never contains a value of another studio. The caches of conditions and results do not distinguish studios.
 */
export const STUDIO_SETTINGS: readonly (readonly [name: string, value: string])[] = [
  ['apply_row_policy_after_final', '0'],
  ['use_query_condition_cache', '0'],
  ['output_format_write_statistics', '0'],
];

/** Settings whose effects, errors, or durations reveal rows of other studios. */
const HIDDEN_SETTINGS = new Set(words('use_query_cache max_rows_to_read max_bytes_to_read use_skip_indexes'));

export function isStudioSetting(name: string): boolean {
  return isReaderSetting(name) && !HIDDEN_SETTINGS.has(name);
}

/** Returns the reason why the account of a studio must not run the statement. Undefined if the statement is allowed. */
export function studioViolation(normalized: string): string | undefined {
  const tokens = tokensOf(normalized);
  const at = (index: number) => tokens[index] ?? { text: '', name: '' };
  const listsTables = tokens.some(({ name }, i) => at(i + 1).text === '.' && CATALOGS.has(name));
  for (const [i, { text, name }] of tokens.entries()) {
    if (text === 'EXPLAIN') return 'EXPLAIN is not allowed';
    const isStart = i === 0 || at(i - 1).text === '(';
    if (isStart && text === 'SHOW' && !SHOWN.has(at(i + 1).text))
      return `SHOW ${at(i + 1).text} is not allowed`;
    const isCall = at(i + 1).text === '(';
    if (HIDDEN_NAMES.test(name) || (isCall && NAMES_IN_TEXTS.has(name)))
      return `the name ${name} is not allowed`;
    if (name === 'system' && at(i + 1).text === '.' && HIDDEN_SYSTEM_TABLES.has(at(i + 2).name))
      return `the table system.${at(i + 2).name} is not allowed`;
    const isTable = CATALOGS.has(name) && at(i + 1).text === '.' && at(i + 3).text !== '.';
    // `x IN system.tables` compares all columns of the table, so a reader could guess a size.
    if (isTable && !BEFORE_TABLE.has(at(i - 1).text))
      return `read ${name}.${at(i + 2).name} with FROM or JOIN`;
    if (!listsTables) continue;
    if (SIZES.test(name)) return `the column ${name} is not allowed`;
    const isCount = at(i - 2).name === 'count' && at(i - 1).text === '(';
    const isMatcher = text === 'COLUMNS' && isCall;
    if ((text === '*' && !isCount) || isMatcher) return 'name the columns instead of *';
  }
  return undefined;
}

/** Returns true for the databases `system` and `information_schema`, whose tables list the sizes of tables. */
export function isCatalog(database: string): boolean {
  return CATALOGS.has(database.toLowerCase());
}

const CATALOGS = new Set(words('system information_schema'));
const BEFORE_TABLE = new Set(words('FROM JOIN TABLE EXISTS DESCRIBE'));
const SHOWN = new Set(words('TABLES FULL DATABASES COLUMNS CREATE FUNCTIONS'));
/** Functions and virtual columns that reveal other studios' rows, the position of a row, or the use of the disk. */
const HIDDEN_NAMES = /^(?:mergetree.*|filesystem.*|_(?:part|block|disk|row|sample).*)$/;
/** Table functions that take the names of tables as texts, for example of `system`, so that no check finds the names. */
const NAMES_IN_TEXTS = new Set(words('merge loop'));
/** Columns of `system.tables`, `system.columns`, and `information_schema.tables` that contain numbers of rows or bytes. */
const SIZES =
  /_(?:rows|bytes|marks)|(?:data|index)_length|^(?:active_)?parts$|^statistics$|^serialization_hint$/;
const HIDDEN_SYSTEM_TABLES = new Set(
  words(`
    parts parts_columns projections projection_parts projection_parts_columns data_skipping_indices view_refreshes
    merges mutations metrics events asynchronous_metrics
  `),
);
