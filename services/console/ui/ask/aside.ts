/** The lists beside the SQL editor: the questions of the data guide, and the tables with their columns. */
import type { VNode } from 'preact';
import type { Question } from '../../src/questions.ts';
import { DocsLink, Failure, html } from '../html.ts';
import { get, type Row } from '../request.ts';
import { useResource, useSql } from '../resource.ts';
import { TABLES_FOR_ANALYSTS } from './tablesForAnalysts.ts';

type ColumnRow = Row<'table' | 'name' | 'type' | 'comment' | 'description'>;

const COLUMNS = `SELECT c.table AS table, c.name AS name, c.type AS type, c.comment AS comment, t.comment AS description
  FROM system.columns AS c JOIN system.tables AS t ON t.database = c.database AND t.name = c.table
  WHERE c.database = currentDatabase() ORDER BY c.table, c.position`;

export function Questions({ onChoose }: { onChoose: (query: string) => void }): VNode {
  const questions = useResource('questions', (signal) => get<Question[]>('/ui/questions.json', signal));
  return html`<section aria-label="Questions">
    <h2>Questions</h2>
    <${Failure} error=${questions.error} />
    <ol>${questions.value?.map(
      ({ title, query }) =>
        html`<li key=${title}><button class="link" onClick=${() => onChoose(query)}>${title}</button></li>`,
    )}</ol>
    <p><${DocsLink} path="docs/data-tools.md">Use a notebook or BI tool<//></p>
  </section>`;
}

export function Tables({ onInsert }: { onInsert: (name: string) => void }): VNode {
  const columns = useSql<ColumnRow>(COLUMNS);
  const tables = [...Map.groupBy(columns.value ?? [], ({ table }) => table)];
  const isForAnalysts = ([table]: (typeof tables)[number]) => TABLES_FOR_ANALYSTS.includes(table);
  const place = ([table]: (typeof tables)[number]) => TABLES_FOR_ANALYSTS.indexOf(table);
  const forAnalysts = tables.filter(isForAnalysts).sort((a, b) => place(a) - place(b));
  const others = tables.filter((table) => !isForAnalysts(table));
  const list = (title: string, shown: typeof tables) => html`<section aria-label=${title}>
    <h2>${title}</h2>
    ${shown.map(
      ([table, columns]) => html`<details key=${table}>
        <summary title=${columns[0]?.description}>${table}</summary>
        <button class="link" onClick=${() => onInsert(table)}>Insert name</button>
        <ul>${columns.map(
          ({ name, type, comment }) =>
            html`<li><button class="link" title=${comment} onClick=${() => onInsert(name)}>${name}</button> <small>${type}</small></li>`,
        )}</ul>
      </details>`,
    )}
  </section>`;
  return html`<div>
    <${Failure} error=${columns.error} />
    ${list('Tables', forAnalysts)}
    ${list('Tables for operators', others)}
  </div>`;
}
