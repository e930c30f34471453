/** The lists of names against the engine that is installed: nothing of it is unknown, and nothing is on two lists. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  aggregateCombinators,
  aggregateFunctions,
  parserFunctions,
  serverOnlyFunctions,
} from './selectOnlyAggregates.ts';
import { computingFunctions } from './selectOnlyFunctions.ts';
import {
  allowedColumnTypes,
  allowedRowFormats,
  allowedSettings,
  allowedSystemTables,
  allowedTableFunctions,
  isAllowedFunction,
  isKnownAsRefused,
} from './selectOnlyPolicy.ts';
import { engineTableFunctions, refusedFunctions } from './selectOnlyRefused.ts';
import { openSandbox, type Sandbox } from './selectOnlySandbox.ts';

let sandbox: Sandbox;
beforeAll(() => {
  sandbox = openSandbox();
});
afterAll(() => sandbox.close());

const words = (text: string): string[] => text.trim().split(/\s+/);
const named = (sql: string): string[] => sandbox.run(sql).trim().split('\n');

describe('the lists of names', () => {
  it('hold every function of the engine, as one that only computes or as one that is refused', () => {
    const known = new Set(words(`${computingFunctions} ${aggregateFunctions} ${refusedFunctions}`));
    const inEngine = named("SELECT name FROM system.functions WHERE origin = 'System' ORDER BY name");
    const undecided = inEngine.filter((name) => !known.has(name));
    expect(undecided, 'put each into selectOnlyFunctions, selectOnlyAggregates or selectOnlyRefused').toEqual(
      [],
    );
    expect(inEngine.length).toBeGreaterThan(1500);
  });

  it('know an aggregate function from another', () => {
    const aggregates = new Set(named('SELECT name FROM system.functions WHERE is_aggregate'));
    expect(words(aggregateFunctions).filter((name) => !aggregates.has(name))).toEqual([]);
    expect(words(computingFunctions).filter((name) => aggregates.has(name))).toEqual([]);
  });

  it('allow no name that is refused, in any case and with any combinator', () => {
    const names = words(refusedFunctions);
    const cased = names.flatMap((name) => [name, name.toLowerCase(), name.toUpperCase()]);
    expect(cased.filter(isAllowedFunction)).toEqual([]);
    expect(cased.filter((name) => !isKnownAsRefused(name))).toEqual([]);
    const allowed = words(
      `${computingFunctions} ${aggregateFunctions} ${parserFunctions} ${serverOnlyFunctions}`,
    );
    expect(allowed.filter((name) => !isAllowedFunction(name) || isKnownAsRefused(name))).toEqual([]);
  });

  it('hold every table function and every combinator of the engine', () => {
    const tableFunctions = named('SELECT name FROM system.table_functions');
    expect(tableFunctions.filter((name) => !words(engineTableFunctions).includes(name))).toEqual([]);
    expect([...allowedTableFunctions].filter((name) => !tableFunctions.includes(name))).toEqual([]);
    const combinators = named('SELECT name FROM system.aggregate_function_combinators');
    expect(combinators.filter((name) => !words(aggregateCombinators).includes(name))).toEqual([]);
  });

  it('name settings, formats, types and tables of system that exist', () => {
    const missing = (wanted: Iterable<string>, sql: string): string[] => {
      const known = new Set(named(sql));
      return [...wanted].filter((name) => !known.has(name));
    };
    expect(missing(allowedSettings, 'SELECT name FROM system.settings')).toEqual([]);
    expect(missing(allowedRowFormats, 'SELECT name FROM system.formats')).toEqual([]);
    expect(missing(allowedColumnTypes, 'SELECT name FROM system.data_type_families')).toEqual([]);
    const tables = "SELECT 'system.' || name FROM system.tables WHERE database = 'system'";
    // A server has it, the library collects none.
    expect(missing(allowedSystemTables, tables)).toEqual(['system.asynchronous_metrics']);
  });
});
