/** `docs/reference/clickhouse.md`: the tables and views that the migrations make, with the comments that stand above them. */
import { projectFiles, textOf } from '../house.ts';
import { code, fence, page } from './markdown.ts';

const FOLDER = 'deploy/clickhouse';

export function clickhousePage(): string {
  const files = projectFiles().filter((path) => path.startsWith(`${FOLDER}/`) && path.endsWith('.sql'));
  return page('Tables and views', FOLDER, [
    'The database is `questlog`. Only the projector writes to it. Ask it with `npm run sql`, `POST /admin/sql` or any\nClickHouse client. `events`, `sessions` and `appends` hold each row once. Tables named `…_by_partition` and `…_versions`\nhold older rows until a merge: ask the views `quota_usage`, `event_counts_by_minute`, `reports` and `report_links`. The columns\nof those tables and of `appends` are in [deploy/clickhouse](../../deploy/clickhouse).',
    ...files.flatMap(statementsOf),
  ]);
}

/** Codecs, settings and indexes are left out: no question depends on them. */
function statementsOf(path: string): string[] {
  return textOf(path)
    .split(/^;$/m)
    .flatMap((statement) => {
      const comment = [...statement.matchAll(/^-- ?(?<text>.*)$/gm)]
        .map(({ groups }) => groups?.['text'])
        .join('\n');
      const sql = statement.replace(/^--.*\n/gm, '').trim();
      if (/^ALTER TABLE \w+ MODIFY SETTING /.test(sql)) return [];
      const name = /^CREATE (?:TABLE|VIEW) (?<name>\w+)/.exec(sql)?.groups?.['name'];
      if (name === undefined)
        throw new Error(`${path}: the reference knows CREATE TABLE, CREATE VIEW and settings, not: ${sql}`);
      const shown = sql
        .replace(/^SETTINGS [^;]*/m, '')
        .replace(/^ {4}INDEX .*\n/gm, '')
        .replace(/,\n\)/, '\n)')
        .replace(/ CODEC\(.*\)(?=,?$)/gm, '')
        .replace(/^( {4}\w+) +/gm, '$1 ');
      const body = shown.startsWith('CREATE VIEW') ? columnsOf(shown) : fence('sql', shown.trim());
      // Questions go to the views before these tables; the ledger of appends is the product's own.
      const isAsked = !/_(?:by_partition|versions)$|^appends$/.test(name);
      return [`## ${name}`, ...(comment === '' ? [] : [comment]), ...(isAsked ? [body] : [])];
    });
}

/** The columns of a view, by their names: their types are those of the tables. */
function columnsOf(view: string): string {
  const selected = /\bSELECT (?<columns>[\s\S]*?)\nFROM /.exec(view)?.groups?.['columns'] ?? '';
  // An expression has commas of its own, inside brackets only.
  let depth = 0;
  const columns = selected.replace(/[(),]/g, (sign) => {
    if (sign !== ',') depth += sign === '(' ? 1 : -1;
    return sign === ',' && depth > 0 ? ' ' : sign;
  });
  const names = columns.split(',').map((column) => column.trim().split(/\s+/).at(-1) ?? '');
  return `Columns: ${names.map(code).join(', ')}.`;
}
