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
  const ask = <T>(what: string, work: () => T, mayBeLate = false): Promise<T> => {
    const { uuid } = tables;
    const workUnlessLost = (): T => {
      // A restored ClickHouse is another server, so that a request to the lost server has no effect.
      if (tables.uuid !== uuid) throw new Unavailable('the server of the request is lost');
      return work();
    };
    return world.ask({ by, what, mayBeLate, work: workUnlessLost });
  };
  return {
    database: 'questlog',
    insertsEndWithinMs: LATEST_MS,
    query: <Row>(sql: string, params = {}) =>
      ask(`query ${tableIn(sql)}`, () => rowsOf(world, tables, sql, params) as Row[]),
    command: (sql) => ask(sql.slice(0, 40), () => tables.command(sql)),
    insert: (insert) =>
      ask(
        `insert ${insert.table}`,
        () => {
          put(world, tables, insert);
          onInsert(insert.table);
        },
        true,
      ),
    queryRaw: unsupported,
    stream: unsupported,
    ping: async () => true,
    close: async () => {},
  };
}

async function unsupported(): Promise<never> {
  throw new Error('the simulated ClickHouse does not support this call');
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
  if (sql.includes('FROM system.tables')) return tables.names().map((name) => ({ name, uuid: tables.uuid }));
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
