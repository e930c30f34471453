/**
 * Decides which statements the read-only account can run. ClickHouse enforces grants and limits, but chdb has gaps: `file`
 * reads any path, `INTO OUTFILE` writes to any path, and all tables of `system` are readable. Functions that run a string as
 * SQL are rejected, because the string can be computed at run time.
 */
import { MAX_READER_MEMORY_BYTES, MAX_READER_SECONDS, MAX_RESULT_BYTES } from './limits.ts';
import { isUnambiguous, maskQuoted, sqlString } from './sqlText.ts';

/** Tables of `system` that readers can read. These tables contain no users and no queries. */
export const readableSystemTables: readonly string[] = words(`
  one numbers numbers_mt zeros zeros_mt primes
  databases tables columns parts parts_columns projections projection_parts projection_parts_columns
  data_skipping_indices view_refreshes merges mutations
  metrics events asynchronous_metrics settings merge_tree_settings build_options contributors licenses
  functions table_functions aggregate_function_combinators formats data_type_families table_engines
  database_engines data_skipping_index_types codecs collations keywords time_zones documentation privileges
`);

/** Settings that analytics and BI clients send. The settings do not give a reader access to additional data. */
const unboundedSettings = words(`
  final join_use_nulls group_by_use_nulls transform_null_in aggregate_functions_null_for_empty max_threads
  union_default_mode intersect_default_mode except_default_mode prefer_column_name_to_alias join_algorithm
  join_default_strictness max_bytes_in_join any_join_distinct_right_table_keys extremes totals_mode session_timezone max_block_size
  date_time_input_format date_time_output_format cast_keep_nullable data_type_default_nullable
  output_format_json_quote_64bit_integers output_format_json_quote_denormals output_format_json_quote_decimals
  output_format_json_quote_64bit_floats output_format_decimal_trailing_zeros output_format_native_encode_types_in_binary_format
  output_format_arrow_string_as_string output_format_csv_delimiter output_format_pretty_max_rows format_csv_delimiter
  input_format_null_as_default use_uncompressed_cache log_queries
  optimize_read_in_order optimize_aggregation_in_order optimize_move_to_prewhere use_skip_indexes use_query_cache
  force_primary_key force_index_by_date do_not_merge_across_partitions_select_final count_distinct_implementation
  short_circuit_function_evaluation exact_rows_before_limit legacy_column_name_of_tuple_literal
  function_json_value_return_type_allow_nullable function_json_value_return_type_allow_complex
  regexp_max_matches_per_row max_result_rows max_rows_to_read max_bytes_to_read result_overflow_mode read_overflow_mode
  send_progress_in_http_headers http_headers_progress_interval_ms cancel_http_readonly_queries_on_client_close
  enable_http_compression network_compression_method network_zstd_compression_level async_insert wait_for_async_insert
  alter_sync mutations_sync lightweight_deletes_sync insert_distributed_sync
`);

/** Settings that a reader can change, with their maximum values. The value 0 is rejected because 0 means no limit. */
export const boundedSettings: ReadonlyMap<string, number> = new Map([
  ['max_execution_time', MAX_READER_SECONDS],
  ['max_memory_usage', MAX_READER_MEMORY_BYTES],
  ['max_result_bytes', MAX_RESULT_BYTES],
]);

const readerSettings: ReadonlySet<string> = new Set([...unboundedSettings, ...boundedSettings.keys()]);

export function isReaderSetting(name: string): boolean {
  return readerSettings.has(name);
}

/** SQL condition on the rows of `system.settings`. A reader sees only the settings that a reader can change. */
export const visibleSettings = `name IN (${[...readerSettings].map(sqlString).join(', ')})`;

/**
 * Returns true if the statement only lists settings. Such a statement runs with `readonly = 2`, so that the column `readonly`
 * is 0 for the settings that a reader can change. The statement has no other source of rows, and changes no setting.
 */
export function listsSettings(normalized: string): boolean {
  const text = maskQuoted(normalized);
  return LIST_OF_SETTINGS.test(text) && text.match(/\b(?:FROM|SETTINGS)\b/g)?.length === 1;
}

const LIST_OF_SETTINGS = /^SELECT .* FROM system\.settings(?: (?:WHERE|ORDER BY|LIMIT|FORMAT) .*)?$/s;

/** Limits that the route `/admin/sql` sets. The SETTINGS clause of a statement cannot override these limits. */
const callerLimits: ReadonlySet<string> = new Set(
  words('max_result_rows max_result_bytes result_overflow_mode'),
);

/**
 * Returns the allowed settings from the SETTINGS clauses of a statement, as SQL. The caller must apply these settings before it
 * sets `readonly`. With `readonly`, the engine rejects every clause that changes a setting.
 */
export function settingsInClauses(
  normalized: string,
  isAllowed: (name: string) => boolean,
): [name: string, sqlValue: string][] {
  const found: [string, string][] = [];
  for (const { index } of maskQuoted(normalized).matchAll(/\bSETTINGS\b/g)) {
    const assignment = / (?<name>[\w.]+) = (?<value>'(?:[^'\\]|\\.)*'|[\w.+-]+),?/y;
    assignment.lastIndex = index + 'SETTINGS'.length;
    for (let match = assignment.exec(normalized); match !== null; match = assignment.exec(normalized)) {
      const { name = '', value = '' } = match.groups ?? {};
      if (isAllowed(name) && !callerLimits.has(name)) found.push([name, value]);
    }
  }
  return found;
}

/**
 * Returns the names of all settings in the SETTINGS clauses of a statement. The caller must reject every name that is not allowed,
 * because chdb applies the clause of a subquery even if `readonly` forbids the change (measured on 26.7). For a clause with a value
 * other than a number, a word, or a string, the name is the clause itself.
 */
export function namesInClauses(normalized: string): string[] {
  const text = maskQuoted(normalized);
  return [...text.matchAll(/(?<!^SHOW (?:CHANGED )?)\bSETTINGS\b/g)].flatMap(({ index }) => {
    const clause = /SETTINGS(?:(?:,|(?<=SETTINGS)) [\w.]+ = (?:'[^']*'|[\w.+-]+))+(?=$|[ )])/y;
    clause.lastIndex = index;
    const [pairs] = clause.exec(text) ?? [];
    if (pairs === undefined) return [normalized.slice(index, index + EXCERPT_CHARACTERS)];
    return Array.from(pairs.matchAll(/ ([\w.]+) =/g), ([, name = '']) => name);
  });
}

const EXCERPT_CHARACTERS = 60;

/**
 * Returns the names of the settings in the subqueries of a statement. Excludes a SETTINGS clause at the end of a single SELECT,
 * because the engine itself rejects such a clause if the clause changes a setting that is not allowed.
 */
export function namesInSubqueries(normalized: string): string[] {
  const text = maskQuoted(normalized);
  const end = text.lastIndexOf(' SETTINGS ');
  const isSingle = /^(?:SELECT|WITH)\b/.test(text) && !/\b(?:UNION|INTERSECT|EXCEPT|PARALLEL)\b/.test(text);
  const isChecked = isSingle && end > text.lastIndexOf(')');
  return namesInClauses(isChecked ? normalized.slice(0, end) : normalized);
}

/** Returns the reason why the read-only account must not run the statement. Undefined if the statement is allowed. */
export function readerViolation(normalized: string): string | undefined {
  if (!isUnambiguous(normalized))
    return 'the type of a query parameter may not contain comments or quoted names';
  const tokens = tokensOf(normalized);
  const verb = tokens.find(({ text }) => text !== '(')?.text ?? '';
  if (!READ_VERBS.has(verb)) return 'only SELECT, SHOW, DESCRIBE, EXISTS and EXPLAIN are allowed';
  let hasSettings = false;
  /** One item for each bracket that is not closed before the token: true if the bracket starts a subquery. */
  const brackets: boolean[] = [];
  for (const [at, { text, name }] of tokens.entries()) {
    hasSettings ||= text === 'SETTINGS';
    if (OPENING.has(text)) brackets.push(SUBQUERY_VERBS.has(tokens[at + 1]?.text ?? ''));
    else if (CLOSING.has(text)) brackets.pop();
    const [before, next, second] = [tokens[at - 1]?.text, tokens[at + 1]?.text, tokens[at + 2]];
    // A forbidden name is allowed after a dot, because `t.file` is a column and not a function.
    if (FORBIDDEN_NAMES.has(name) && before !== '.' && !isColumn(tokens, at, brackets.at(-1) ?? true))
      return `the name ${name} is only allowed as an alias or after a table name`;
    if (COLUMN_DECLARING_FUNCTIONS.has(name) && next === '(' && !startsWithTuple(tokens.slice(at + 2)))
      return `the table function ${name} is not allowed`;
    if (FORBIDDEN_KEYWORDS.has(text)) return `${text} is not allowed`;
    // Rejects the value `DEFAULT` of a setting, because this value would reset `readonly` and every limit.
    if (text === 'DEFAULT' && before === '=') return 'a setting may not be DEFAULT';
    // Rejects the setting `profile`, because a profile would reset `readonly` and all other settings.
    if (name === 'profile' && hasSettings && next === '=') return 'the setting profile is not allowed';
    if (name === 'identifier' && before === ':') return 'a query parameter may not be an Identifier';
    if (name === 'system' && next === '.' && second !== undefined) {
      if (!readableSystemTables.includes(second.name))
        return `the table system.${second.name} is not allowed`;
    }
  }
  return undefined;
}

/**
 * Returns true if the name is an alias, a column, or a table. Returns false for a function. A query can name a function without
 * a call only as an argument (`arrayMap(file, …)`), after APPLY, or before an alias.
 */
function isColumn(tokens: readonly Token[], at: number, isInSelect: boolean): boolean {
  const [before, next, second, third] = [at - 1, at + 1, at + 2, at + 3].map((i) => tokens[i]?.text ?? '');
  if (next === '(' || before === 'APPLY') return false;
  if (before === 'AS') return true;
  return isInSelect && (next !== 'AS' || (second === '(' && SUBQUERY_VERBS.has(third ?? '')));
}

/**
 * Returns true if the arguments of `values` start with a tuple of literals, as in `values(('a', 1), ('b', 2))`. Such an
 * argument declares no columns, because only a string does.
 */
function startsWithTuple(tokens: readonly Token[]): boolean {
  const end = tokens.findIndex(({ text, isString }, at) => at > 0 && !isString && !IN_TUPLE.test(text));
  const [open, first, comma] = tokens;
  const isTuple =
    open?.text === '(' && first?.text !== ',' && comma?.text === ',' && tokens[end]?.text === ')';
  return isTuple && [',', ')'].includes(tokens[end + 1]?.text ?? '');
}

const IN_TUPLE = /^(?:,|-|\d\w*|NULL|TRUE|FALSE)$/;
const OPENING = new Set(['(', '[', '{']);
const CLOSING = new Set([')', ']', '}']);
const SUBQUERY_VERBS = new Set(['SELECT', 'WITH']);

export interface Token {
  readonly isString?: boolean;
  /** Text of the token: a word in upper case, or a symbol. Empty if the token is quoted. */
  readonly text: string;
  /** Word or quoted name in lower case, because some SQL functions ignore case. Empty for symbols and string literals. */
  readonly name: string;
}

/** Splits a normalized statement into tokens. */
export function tokensOf(normalized: string): Token[] {
  return Array.from(maskQuoted(normalized).matchAll(/'[^']*'|`[^`]*`|[\w$]+|\S/g), ({ 0: token, index }) => {
    if (token.startsWith("'")) return { text: '', name: '', isString: true };
    if (!token.startsWith('`')) return { text: token.toUpperCase(), name: token.toLowerCase() };
    const quoted = normalized.slice(index + 1, index + token.length - 1);
    return { text: '', name: quoted.replaceAll(/\\(.)/gs, '$1').toLowerCase() };
  });
}

export function words(text: string): string[] {
  return text.trim().split(/\s+/);
}

const READ_VERBS = new Set(['SELECT', 'WITH', 'SHOW', 'DESCRIBE', 'EXISTS', 'EXPLAIN']);
/** Functions that a reader must not call. The functions read files, or call a function whose name is in a string. */
const FORBIDDEN_NAMES = new Set(
  words('file catboostevaluate arrayreduce arrayreduceinranges initializeaggregation'),
);
/** Rejected keywords. `OUTFILE` writes a file, `PROCESSLIST` shows other users' queries, and `OVERRIDE` connects to MySQL. */
const FORBIDDEN_KEYWORDS = new Set(['OUTFILE', 'PROCESSLIST', 'OVERRIDE']);
/**
 * Table functions that a reader must not call. Their argument describes columns as a string, and the string can contain any
 * expression after DEFAULT or ALIAS.
 */
const COLUMN_DECLARING_FUNCTIONS = new Set(words('values generaterandom null'));
