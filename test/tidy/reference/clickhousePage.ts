/** `docs/reference/clickhouse.md`: the tables and views that the migrations make, with the comments that stand above them. */
import { projectFiles, textOf } from '../house.ts';
import { code, fence, page, table } from './markdown.ts';

const FOLDER = 'deploy/clickhouse';

export function clickhousePage(): string {
  const files = projectFiles().filter((path) => path.startsWith(`${FOLDER}/`) && path.endsWith('.sql'));
  return page('Tables and views', FOLDER, [
    'The database is `questlog`. Only the projector writes to it; ask it with `npm run sql`, with `POST /admin/sql`, or with\nany client of ClickHouse. `events`, `sessions` and `appends` hold each row once. In a table\nwhose name ends in `_by_partition` or `_versions`, older rows wait to be merged away: ask the views, which leave them out\n(`quota_usage`, `event_counts_by_minute`, `reports`, `report_links`).',
    ...files.flatMap(statementsOf),
  ]);
}

function statementsOf(path: string): string[] {
  return textOf(path)
    .split(/^;$/m)
    .flatMap((statement) => {
      const comment = [...statement.matchAll(/^-- ?(?<text>.*)$/gm)]
        .map(({ groups }) => groups?.['text'])
        .join('\n');
      const sql = statement.replace(/^--.*\n/gm, '').trim();
      const { kind = '', name = '' } =
        /^(?<kind>CREATE TABLE|CREATE VIEW|ALTER TABLE) (?<name>\w+)/.exec(sql)?.groups ?? {};
      if (name === '')
        throw new Error(
          `${path}: the reference knows CREATE TABLE, CREATE VIEW and ALTER TABLE, not: ${sql}`,
        );
      const title = kind === 'ALTER TABLE' ? `${name}, changed since` : name;
      const shape = kind === 'CREATE TABLE' ? tableOf(sql, path) : [fence('sql', sql)];
      return [`## ${title}`, ...(comment === '' ? [] : [comment]), ...shape];
    });
}

function tableOf(sql: string, path: string): string[] {
  const { columns, rest } =
    /^CREATE TABLE \w+\n\(\n(?<columns>[\s\S]*?)\n\)\n(?<rest>[\s\S]*)$/.exec(sql)?.groups ?? {};
  if (columns === undefined || rest === undefined)
    throw new Error(`${path}: a table without columns: ${sql}`);
  const rows = columns
    .split('\n')
    .filter((line) => !line.trimStart().startsWith('INDEX '))
    .map((line) => columnOf(line.trim(), path));
  return [table(['column', 'type'], rows), fence('sql', rest.trim())];
}

/** Name and type; how a column is compressed is nothing to ask questions with. */
function columnOf(line: string, path: string): string[] {
  const { name, type } = /^(?<name>\w+) +(?<type>.*?)(?: CODEC\(.*\))?,?$/.exec(line)?.groups ?? {};
  if (name === undefined || type === undefined) throw new Error(`${path}: not a column: ${line}`);
  return [code(name), code(type)];
}
