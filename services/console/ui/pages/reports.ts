/** The page of the bug reports. The list shows the newest reports first, or groups reports by fingerprint. */
import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { type Field, Filters } from '../form.ts';
import { count } from '../format.ts';
import {
  type Column,
  Empty,
  fromClickHouse,
  html,
  type PageProps,
  projectNames,
  short,
  shortId,
  Table,
  Time,
} from '../html.ts';
import { Severity, State, titleOf } from '../report/labels.ts';
import { type Row, sql, UUID } from '../request.ts';
import { show, useResource } from '../resource.ts';

type ReportRow = Row<
  'id' | 'projectId' | 'title' | 'severity' | 'fingerprint' | 'receivedAt',
  'buildId' | 'version' | 'retractedAt'
>;

type GroupRow = Row<
  'projectId' | 'fingerprint' | 'title' | 'occurrences' | 'firstSeen' | 'lastSeen' | 'builds' | 'players'
>;

const PAGE_ROWS = 50;
const SEVERITIES = ['critical', 'high', 'medium', 'low'];
const REFRESH_MS = 10_000;

const searchCondition = (columns: readonly string[]) =>
  `(${columns.map((column) => `positionCaseInsensitiveUTF8(${column}, {search:String}) > 0`).join(' OR ')})`;
const CONDITIONS = {
  project: 'project_id = {project:UUID}',
  search: searchCondition(['title', 'description', 'fingerprint']),
  severity: 'severity = {severity:String}',
  buildId: 'build_id = {buildId:UUID}',
  version: 'build_id IN (SELECT build_id FROM sessions WHERE version = {version:String})',
  filed: 'retracted_at IS NULL',
  retracted: 'retracted_at IS NOT NULL',
} as const;

type Texts = Readonly<Record<'search' | 'severity' | 'build' | 'state', string>>;
const NO_FILTER: Texts = { search: '', severity: '', build: '', state: '' };

export function Reports({ project, projects }: PageProps): VNode {
  const [filters, setFilters] = useState(NO_FILTER);
  const [isGrouped, setGrouped] = useState(false);
  // When the operator opens a group, a new key makes Preact render the form again. The new form shows the filter for the group.
  const [formKey, setFormKey] = useState(0);
  const openGroup = (fingerprint: string) => {
    setFilters({ ...NO_FILTER, search: fingerprint });
    setFormKey((last) => last + 1);
    setGrouped(false);
  };
  const key = JSON.stringify([project?.id, filters]);
  const list = { project, nameOf: projectNames(projects) };
  const fields = fieldsOf(filters);
  return html`<section>
    <${Filters} key=${formKey} fields=${isGrouped ? fields.slice(0, 1) : fields} action="Search" submitsOnChange
      onFilter=${(texts: Partial<Texts>) => setFilters({ ...NO_FILTER, ...texts })}>
      <button type="button" class="plain" aria-pressed=${isGrouped} onClick=${() => setGrouped(!isGrouped)}>
        ${isGrouped ? 'Show single reports' : 'Group by fingerprint'}
      </button>
    <//>
    ${
      isGrouped
        ? html`<${Groups} key=${key} ...${list} search=${filters.search} onOpen=${openGroup} />`
        : html`<${List} key=${key} ...${list} filters=${filters} />`
    }
  </section>`;
}

function fieldsOf({ search, severity, build, state }: Texts): Field[] {
  const any = (...values: readonly string[]) => [{ id: '', name: 'any' }, ...values];
  return [
    { name: 'search', label: 'Search', type: 'search', value: search, placeholder: 'title or text' },
    { name: 'severity', label: 'Severity', value: severity, options: any(...SEVERITIES) },
    { name: 'build', label: 'Build', value: build, placeholder: 'version or build id' },
    { name: 'state', label: 'State', value: state, options: any('filed', 'retracted') },
  ];
}

interface ListProps {
  readonly project: PageProps['project'];
  readonly nameOf: (projectId: string) => string;
}

/** Returns the column with the project's name if the list shows the reports of all projects. */
function projectColumn({ project, nameOf }: ListProps): Column<{ readonly projectId: string }>[] {
  return project === undefined ? [['Project', ({ projectId }) => short(nameOf(projectId))]] : [];
}

/** Loads more rows each time the operator selects the button `more`. */
function usePages<T>(query: string, parameters: Readonly<Record<string, string>>) {
  const [pages, setPages] = useState(1);
  const limit = pages * PAGE_ROWS;
  const rows = useResource(
    '',
    (signal) => sql<T>(query, { ...parameters, limit: limit + 1 }, signal),
    REFRESH_MS,
  );
  useEffect(() => {
    if (pages > 1) rows.refresh();
  }, [pages]);
  const hasMore = (rows.value?.length ?? 0) > limit;
  const more =
    hasMore &&
    html`<p class="actions"><button class="plain" onClick=${() => setPages(pages + 1)}>Show more</button></p>`;
  return { rows: { ...rows, value: rows.value?.slice(0, limit) }, more };
}

function List({ filters, ...list }: ListProps & { filters: Texts }): VNode {
  const { project } = list;
  const { severity, search, build, state } = filters;
  const parameters = {
    ...(project && { project: project.id }),
    ...(search && { search }),
    ...(severity && { severity }),
    ...(build && { [UUID.test(build) ? 'buildId' : 'version']: build }),
  };
  const where = whereAll([...Object.keys(parameters), ...(state === '' ? [] : [state])]);
  const { rows, more } = usePages<ReportRow>(
    `WITH page AS (
         SELECT id, project_id, session_id, title, severity, fingerprint, build_id, received_at, retracted_at
         FROM reports ${where} ORDER BY received_at DESC, id DESC LIMIT {limit:UInt32}
       )
       SELECT page.id AS id, page.project_id AS projectId, title, severity, fingerprint, page.build_id AS buildId,
         if(page.build_id = known.build_id, known.version, NULL) AS version,
         page.received_at AS receivedAt, page.retracted_at AS retractedAt
       FROM page LEFT JOIN (
         SELECT project_id, id, build_id, version FROM sessions
         WHERE (project_id, id) IN (SELECT project_id, assumeNotNull(session_id) FROM page WHERE session_id IS NOT NULL)
       ) AS known ON known.project_id = page.project_id AND known.id = page.session_id
       ORDER BY page.received_at DESC, page.id DESC`,
    parameters,
  );
  const isFiltered = search + severity + build + state !== '';
  return show(rows, (reports) => {
    if (reports.length === 0) return html`<${NoReports} isFiltered=${isFiltered} />`;
    return html`
      <p class="status" role="status">${more ? `The newest ${count(reports.length)}` : count(reports.length)} ${reports.length === 1 ? 'report' : 'reports'}${isFiltered ? ` that match${reports.length === 1 ? 'es' : ''}` : ''}</p>
      <${Table} label="Reports, newest first" rows=${reports} columns=${[...REPORT_COLUMNS, ...projectColumn(list)]} />
      ${more}`;
  });
}

const REPORT_COLUMNS: readonly Column<ReportRow>[] = [
  ['Received', (row) => html`<${Time} at=${fromClickHouse(row.receivedAt)} />`],
  ['Report', (row) => html`<a class="long" href=${`#/report/${row.id}`}>${titleOf(row.title)}</a>`],
  ['Severity', (row) => html`<${Severity} of=${row.severity} />`],
  ['State', (row) => html`<${State} retractedAt=${row.retractedAt} />`],
  ['Build', (row) => (row.version ? short(row.version) : shortId(row.buildId))],
  ['Fingerprint', (row) => (row.fingerprint ? html`<code class="long">${row.fingerprint}</code>` : '–')],
];

function Groups(props: ListProps & { search: string; onOpen: (fingerprint: string) => void }): VNode {
  const { project, search, onOpen } = props;
  const parameters = { ...(project && { project: project.id }), ...(search && { search }) };
  const where = whereAll(Object.keys(parameters)).replace(
    CONDITIONS.search,
    searchCondition(['title', 'fingerprint']),
  );
  const { rows, more } = usePages<GroupRow>(
    `SELECT project_id AS projectId, fingerprint, title, occurrences, builds, players,
       first_seen AS firstSeen, last_seen AS lastSeen
     FROM report_groups ${where} ORDER BY occurrences DESC, last_seen DESC, fingerprint LIMIT {limit:UInt32}`,
    parameters,
  );
  return show(rows, (groups) => {
    if (groups.length === 0) {
      return html`<${Empty}>
        <p>No report with a fingerprint${search && ' that matches'}.</p>
        <p>Reports with the same <code>fingerprint</code> are counted together here. The game sets the fingerprint.</p>
      <//>`;
    }
    return html`
      <p class="status" role="status">${count(groups.length)}${more ? ' and more' : ''} ${groups.length === 1 ? 'problem' : 'problems'}, excluding retracted reports</p>
      <${Table} label="Problems, most frequent first" rows=${groups} columns=${[...groupColumns(onOpen), ...projectColumn(props)]} />
      ${more}`;
  });
}

function groupColumns(onOpen: (fingerprint: string) => void): Column<GroupRow>[] {
  return [
    [
      'Problem',
      (row) =>
        html`<span class="long">${titleOf(row.title)}</span><br /><button class="link" onClick=${() => onOpen(row.fingerprint)}><code>${row.fingerprint}</code></button>`,
    ],
    ['Reports', (row) => count(Number(row.occurrences)), 'number'],
    ['Players', (row) => count(Number(row.players)), 'number'],
    ['Builds', (row) => count(Number(row.builds)), 'number'],
    ['First seen', (row) => html`<${Time} at=${fromClickHouse(row.firstSeen)} />`],
    ['Last seen', (row) => html`<${Time} at=${fromClickHouse(row.lastSeen)} />`],
  ];
}

function whereAll(names: readonly string[]): string {
  const conditions = Object.entries(CONDITIONS).filter(([name]) => names.includes(name));
  return conditions.length === 0 ? '' : `WHERE ${conditions.map(([, condition]) => condition).join(' AND ')}`;
}

function NoReports({ isFiltered }: { isFiltered: boolean }): VNode {
  return isFiltered
    ? html`<${Empty}><p>No report matches. Remove a filter, or select another project.</p><//>`
    : html`<${Empty}>
        <p>No bug report yet.</p>
        <p>A game files a report with <code>POST /v1/ingest/reports</code>. Questlog links it to the events of its session.</p>
        <p>To see examples, run a simulated game: <code>npx questlog simulate</code></p>
      <//>`;
}
