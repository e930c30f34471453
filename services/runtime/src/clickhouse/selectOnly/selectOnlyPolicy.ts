/**
 * What a question may name: functions, table functions, settings, tables of `system` and types. Everything is a list of
 * what is allowed, so that whatever a new engine brings stays refused until somebody has looked at it.
 */
import {
  aggregateCombinators,
  aggregateFunctions,
  parserFunctions,
  serverOnlyFunctions,
} from './selectOnlyAggregates.ts';
import { computingFunctions } from './selectOnlyFunctions.ts';
import { engineTableFunctions, refusedFunctions } from './selectOnlyRefused.ts';

/** Without a path, an address, a query or a table in their arguments. */
export const allowedTableFunctions: ReadonlySet<string> = new Set(
  words(
    'numbers numbers_mt zeros zeros_mt primes generateSeries generate_series generateRandom null values SQLStandardValues view format',
  ),
);

/**
 * Tables of `system` that describe the schema, the engine and its work. Not here: users, roles, grants and quotas; named
 * collections, dictionaries and clusters (addresses and credentials); logs, processes and errors (other people's
 * queries); disks, detached parts and caches (they touch files); stack traces; ZooKeeper.
 */
export const allowedSystemTables: ReadonlySet<string> = new Set(
  words(`
    one numbers numbers_mt zeros zeros_mt primes
    databases tables columns parts parts_columns projections projection_parts projection_parts_columns
    data_skipping_indices view_refreshes merges mutations moves replicas replication_queue replicated_fetches
    metrics events asynchronous_metrics histogram_metrics dimensional_metrics
    settings merge_tree_settings settings_changes build_options contributors licenses
    functions table_functions aggregate_function_combinators formats data_type_families table_engines
    database_engines dictionary_layouts dictionary_sources disk_types data_skipping_index_types codecs
    collations keywords time_zones tokenizers documentation privileges
  `).map((name) => `system.${name}`),
);

/** Settings that change what a question means or how its answer looks, and neither a limit nor what can be reached. */
export const allowedSettings: ReadonlySet<string> = new Set(
  words(`
    final join_use_nulls group_by_use_nulls transform_null_in aggregate_functions_null_for_empty
    union_default_mode intersect_default_mode except_default_mode prefer_column_name_to_alias
    join_default_strictness any_join_distinct_right_table_keys extremes totals_mode session_timezone
    date_time_input_format date_time_output_format cast_keep_nullable data_type_default_nullable
    input_format_null_as_default output_format_json_quote_64bit_integers output_format_json_quote_denormals
    output_format_json_quote_decimals output_format_json_quote_64bit_floats output_format_decimal_trailing_zeros
    optimize_read_in_order optimize_aggregation_in_order optimize_move_to_prewhere use_skip_indexes
    force_primary_key force_index_by_date do_not_merge_across_partitions_select_final count_distinct_implementation
    short_circuit_function_evaluation exact_rows_before_limit legacy_column_name_of_tuple_literal
    function_json_value_return_type_allow_nullable function_json_value_return_type_allow_complex
    regexp_max_matches_per_row normalize_function_names apply_mutations_on_fly
  `),
);

/** Options of EXPLAIN; their values are whole numbers. */
export const allowedExplainOptions: ReadonlySet<string> = new Set(
  words(`
    header description indexes projections actions json distributed compact pretty graph keep_logical_steps
    optimize oneline run_query_tree_passes query_tree_passes run_passes dump_passes passes dump_tree dump_ast
    sorting estimates
  `),
);

/** Formats that write or read rows without a schema file, a template file or expressions in their data. */
export const allowedRowFormats: ReadonlySet<string> = new Set(
  words(`
    CSV CSVWithNames CSVWithNamesAndTypes TSV TSVRaw TSVWithNames TSVWithNamesAndTypes TabSeparated
    TabSeparatedRaw TabSeparatedWithNames TabSeparatedWithNamesAndTypes JSONEachRow JSONCompactEachRow
    JSONCompactEachRowWithNames JSONCompactEachRowWithNamesAndTypes JSONStringsEachRow
    JSONCompactStringsEachRow JSONLines NDJSON LineAsString JSONAsString TSKV
  `),
);

/** Types that a declaration of columns may use; what is not here could be the DEFAULT of a column, an expression. */
export const allowedColumnTypes: ReadonlySet<string> = new Set(
  words(`
    Int8 Int16 Int32 Int64 Int128 Int256 UInt8 UInt16 UInt32 UInt64 UInt128 UInt256 Float32 Float64 BFloat16
    Decimal Decimal32 Decimal64 Decimal128 Decimal256 Bool String FixedString UUID IPv4 IPv6 Date Date32
    DateTime DateTime64 Time Time64 Array Tuple Map Nullable LowCardinality JSON Dynamic Variant
  `),
);

const scalars = lowerCased(computingFunctions, parserFunctions, serverOnlyFunctions);
const aggregates = lowerCased(aggregateFunctions);
const combinators = words(aggregateCombinators).map((name) => name.toLowerCase());
const refused = lowerCased(refusedFunctions);
const allowedTables = lowerCased([...allowedTableFunctions].join(' '));
const refusedTableFunctions = lowerCased(engineTableFunctions).difference(allowedTables);

/** True for a function that only computes, in any case of its letters, an aggregate also with combinators behind it. */
export function isAllowedFunction(name: string): boolean {
  const lower = name.toLowerCase();
  return !refused.has(lower) && (scalars.has(lower) || isAllowedAggregate(lower));
}

/** True for `sum`, `quantileIf`, `uniqArrayOrNull`, …: a known aggregate and any chain of known combinators. */
export function isAllowedAggregate(name: string): boolean {
  const lower = name.toLowerCase();
  if (refused.has(lower)) return false;
  if (aggregates.has(lower)) return true;
  return combinators.some(
    (suffix) => lower.endsWith(suffix) && isAllowedAggregate(lower.slice(0, -suffix.length)),
  );
}

/** True for a name that the engine would take as something that does more than compute, wherever it may stand. */
export function isKnownAsRefused(name: string): boolean {
  return (
    isRefusedFunction(name) || (refusedTableFunctions.has(name.toLowerCase()) && !isAllowedFunction(name))
  );
}

export function isRefusedFunction(name: string): boolean {
  return refused.has(name.toLowerCase());
}

function words(text: string): string[] {
  return text.trim().split(/\s+/);
}

function lowerCased(...lists: readonly string[]): ReadonlySet<string> {
  return new Set(lists.flatMap((list) => words(list.toLowerCase())));
}
