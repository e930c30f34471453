/** ClickHouse as one process sees it: lost responses, late inserts, and tokens whose rows are missing. */
import type { Insert, Store } from '@questlog/runtime/clickhouse/store';
import { Unavailable } from '@questlog/runtime/process/errors';
import { LEDGER_DIFFERENCE } from '@questlog/schemas/tables/ledgerDifference';
import type { Tables } from '../clickhouse/tables.ts';
import { LATEST_MS, type Process, type World } from './world.ts';

/** @param onInsert called with the name of a table after rows are inserted */
export function storeOf(
  world: World,
  tables: Tables,
  by: Process,
  onInsert: (table: string) => void = () => {},
): Store {
  return {
    database: 'questlog',
    insertsEndWithinMs: LATEST_MS,
    query: <Row>(sql: string, params = {}) =>
      world.ask({
        by,
        what: `query ${tableIn(sql)}`,
        work: () => rowsOf(world, tables, sql, params) as Row[],
      }),
    command: (sql) => world.ask({ by, what: sql.slice(0, 40), work: () => tables.command(sql) }),
    insert: (insert) =>
      world.ask({
        by,
        what: `insert ${insert.table}`,
        mayBeLate: true,
        work: () => {
          put(world, tables, insert);
          onInsert(insert.table);
        },
      }),
    queryRaw: async () => {
      throw new Error('the simulated ClickHouse does not support this call');
    },
    ping: async () => true,
    close: async () => {},
  };
}

/** The ledger has its own tests, so its inserts are ignored. */
function rowsOf(
  world: World,
  tables: Tables,
  sql: string,
  params: Readonly<Record<string, unknown>>,
): unknown[] {
  if (sql === LEDGER_DIFFERENCE) return [];
  // A mutation has ended when its statement returns.
  if (sql.includes('FROM system.mutations')) return [];
  if (sql.includes('FROM system.tables')) return tables.names().map((name) => ({ name, uuid: 'as made' }));
  try {
    return tables.query(sql, params);
  } catch (error) {
    // Records the error, because callers could treat it as an outage.
    world.findings.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
    throw error;
  }
}

function put(world: World, tables: Tables, insert: Insert): void {
  // ClickHouse dies after it logged the token and before it stored the part.
  const isBurnt = world.dice.chance(world.troubles.burnt);
  tables.insert(insert, isBurnt);
  if (isBurnt) throw new Unavailable(`insert ${insert.table}: ClickHouse died`);
}

function tableIn(sql: string): string {
  return /FROM (\w+)/.exec(sql)?.[1] ?? '';
}
