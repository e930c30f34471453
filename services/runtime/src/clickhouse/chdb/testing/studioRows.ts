/** Builds rows for the tests of the accounts of studios: one row for every table whose rows belong to a studio. */
import { STUDIO_RULES } from '../../studioTables.ts';

export interface StudioColumn {
  readonly table: string;
  readonly name: string;
  readonly type: string;
}

const TABLES = Object.keys(STUDIO_RULES).filter((table) =>
  ['project', 'tenant'].includes(STUDIO_RULES[table] ?? ''),
);

/** Query of the columns that `studioRows` needs. In a cluster, the columns of `events` are the columns of `events_local`. */
export const STUDIO_COLUMNS = `SELECT table, name, type FROM system.columns
  WHERE database = 'questlog' AND default_kind != 'MATERIALIZED' AND table IN (${TABLES.map((table) => `'${table}'`).join(', ')})`;

/** Returns the name of each table with a row in JSON. Each text of the row is `text`. */
export function studioRows(
  columns: readonly StudioColumn[],
  {
    tenant,
    project,
    text,
    offset,
  }: Record<'tenant' | 'project' | 'text', string> & { readonly offset: number },
): [table: string, row: string][] {
  const own = new Map<string, unknown>([
    ['tenant_id', tenant],
    ['project_id', project],
    ['log_offset', offset],
    ['used', 3 + offset],
  ]);
  const byTable = Map.groupBy(columns, ({ table }) => table);
  return [...byTable].map(([table, ofTable]) => {
    const values = ofTable.map(({ name, type }) => [name, own.get(name) ?? fieldValue(name, type, text)]);
    return [table, JSON.stringify(Object.fromEntries(values))];
  });
}

function fieldValue(name: string, type: string, text: string): unknown {
  if (name === 'retracted_at') return null;
  if (/Date/.test(type)) return type === 'Date' ? '2026-11-01' : '2026-11-01 00:00:00';
  if (/Array/.test(type)) return [];
  if (/UUID/.test(type)) return '00000000-0000-4000-8000-000000000000';
  if (/Enum/.test(type)) return name === 'state' ? 'linked' : undefined;
  return /String/.test(type) && !/FixedString/.test(type) ? text : undefined;
}
