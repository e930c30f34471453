/** `docs/reference/clickhouse.md`: the tables and views that the migrations make, with the comments that stand above them. */
import { projectFiles, textOf } from '../house.ts';
import { code, fence, page } from './markdown.ts';

const FOLDER = 'deploy/clickhouse';

export function clickhousePage(): string {
  const files = projectFiles().filter((path) => path.startsWith(`${FOLDER}/`) && path.endsWith('.sql'));
  return page('Tables and views', FOLDER, [
    'The database is `questlog`. Only the projector writes to it. Ask it with `npm run sql`, `POST /admin/sql` or any\nClickHouse client. `events` and `sessions` hold each row once. [deploy/clickhouse](../../deploy/clickhouse) has the tables\nbehind the views, `…_by_partition` and `…_versions`, which hold older rows until a merge, and `appends`, the ledger by which\nrepeats are recognised, kept for three days.',
    'Quotas and counts go by `received_at`. The window of a report is from `from_micros` to `to_micros`, both inside.',
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
      // Questions go to the views before these tables; the ledger of appends is the product's own.
      if (/_(?:by_partition|versions)$|^appends$/.test(name)) return [];
      const shown = sql
        .replace(/^SETTINGS [^;]*/m, '')
        .replace(/^ {4}INDEX .*\n/gm, '')
        .replace(/,\n\)/, '\n)')
        .replace(/ CODEC\(.*\)(?=,?$)/gm, '')
        .replace(/^( {4}\w+) +/gm, '$1 ');
      const body = shown.startsWith('CREATE VIEW') ? columnsOf(shown) : fence('sql', shown.trim());
      return [`## ${name}`, ...(comment === '' ? [] : [comment]), body];
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
