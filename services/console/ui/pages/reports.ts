/** The page of the bug reports. The list shows the newest reports first, or groups reports by fingerprint. */
import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { count } from '../format.ts';
import {
  Empty,
  Failure,
  fromClickHouse,
  html,
  Loading,
  type PageProps,
  short,
  Table,
  Time,
  useQuery,
} from '../html.ts';
import { Severity, State, titleOf } from '../report/labels.ts';
import { sql } from '../request.ts';

interface ReportRow {
  readonly id: string;
  readonly projectId: string;
  readonly title: string;
  readonly severity: string;
  readonly fingerprint: string;
  readonly buildId: string | null;
  readonly version: string | null;
  readonly receivedAt: string;
  readonly retractedAt: string | null;
}

interface GroupRow {
  readonly projectId: string;
  readonly fingerprint: string;
  readonly title: string;
  readonly occurrences: string;
  readonly firstSeen: string;
  readonly lastSeen: string;
  readonly builds: string;
  readonly players: string;
}

const PAGE_ROWS = 50;
const REFRESH_MS = 10_000;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

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

type Filters = Readonly<Record<'search' | 'severity' | 'build' | 'state', string>>;
const NO_FILTER: Filters = { search: '', severity: '', build: '', state: '' };

export function Reports({ project, projects }: PageProps): VNode {
  const [filters, setFilters] = useState(NO_FILTER);
  const [isGrouped, setGrouped] = useState(false);
  // When the operator opens a group, a new key makes Preact render the form again. The new form shows the filter for the group.
  const [formKey, setFormKey] = useState(0);
  const onSearch = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    setFilters(
      (last) =>
        Object.fromEntries(
          Object.keys(last).map((name) => [name, String(form.get(name) ?? '').trim()]),
        ) as Filters,
    );
  };
  const onChange = (event: Event) => (event.currentTarget as HTMLFormElement).requestSubmit();
  const names = new Map(projects.map(({ id, name }) => [id, name]));
  const openGroup = (fingerprint: string) => {
    setFilters({ ...NO_FILTER, search: fingerprint });
    setFormKey((last) => last + 1);
    setGrouped(false);
  };
  const key = JSON.stringify([project?.id, filters]);
  return html`<section>
    <form class="filters" key=${formKey} onSubmit=${onSearch} onChange=${onChange}>
      <label>Search<input name="search" type="search" placeholder="title or text" defaultValue=${filters.search} /></label>
      ${
        !isGrouped &&
        html`<label>Severity<${Choice} name="severity" chosen=${filters.severity} of=${['critical', 'high', 'medium', 'low']} /></label>
        <label>Build<input name="build" placeholder="version or build id" defaultValue=${filters.build} /></label>
        <label>State<${Choice} name="state" chosen=${filters.state} of=${['filed', 'retracted']} /></label>`
      }
      <button>Search</button>
      <button type="button" class="plain" aria-pressed=${isGrouped} onClick=${() => setGrouped(!isGrouped)}>
        ${isGrouped ? 'Show single reports' : 'Group by fingerprint'}
      </button>
    </form>
    ${
      isGrouped
        ? html`<${Groups} key=${key} project=${project} search=${filters.search} names=${names} onOpen=${openGroup} />`
        : html`<${List} key=${key} project=${project} filters=${filters} names=${names} />`
    }
  </section>`;
}

function Choice({ name, chosen, of }: { name: string; chosen: string; of: readonly string[] }): VNode {
  return html`<select name=${name}>
    <option value="">any</option>
    ${of.map((value) => html`<option value=${value} selected=${value === chosen}>${value}</option>`)}
  </select>`;
}

interface ListProps {
  readonly project: PageProps['project'];
  readonly names: ReadonlyMap<string, string>;
}

function usePages<Row>(query: (limit: number) => Promise<Row[]>) {
  const [pages, setPages] = useState(1);
  const { value, error, refresh } = useQuery('rows', () => query(pages * PAGE_ROWS + 1), REFRESH_MS);
  useEffect(() => {
    if (pages > 1) refresh();
  }, [pages]);
  const rows = value?.slice(0, pages * PAGE_ROWS);
  const more =
    value !== undefined && value.length > pages * PAGE_ROWS
      ? html`<p class="actions"><button class="plain" onClick=${() => setPages(pages + 1)}>Show more</button></p>`
      : undefined;
  return { rows, error, more };
}

function List({ project, filters, names }: ListProps & { filters: Filters }): VNode {
  const { severity, search, build, state } = filters;
  const parameters = {
    ...(project && { project: project.id }),
    ...(search && { search }),
    ...(severity && { severity }),
    ...(build && { [UUID.test(build) ? 'buildId' : 'version']: build }),
  };
  const where = whereAll([...Object.keys(parameters), ...(state === '' ? [] : [state])]);
  const { rows, error, more } = usePages((limit) =>
    sql<ReportRow>(
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
      { ...parameters, limit },
    ),
  );
  if (rows === undefined) return error ? html`<${Failure} error=${error} />` : html`<${Loading} />`;
  const isFiltered = search + severity + build + state !== '';
  if (rows.length === 0) return html`<${NoReports} isFiltered=${isFiltered} />`;
  return html`<div>
    <${Failure} error=${error} />
    <p class="status" role="status">${more ? `The newest ${count(rows.length)}` : count(rows.length)} ${rows.length === 1 ? 'report' : 'reports'}${isFiltered ? ` that match${rows.length === 1 ? 'es' : ''}` : ''}</p>
    <${Table} label="Reports, newest first" rows=${rows} columns=${[
      { title: 'Received', of: (row: ReportRow) => html`<${Time} at=${fromClickHouse(row.receivedAt)} />` },
      {
        title: 'Report',
        of: (row: ReportRow) => html`<a class="long" href=${`#/report/${row.id}`}>${titleOf(row.title)}</a>`,
      },
      { title: 'Severity', of: (row: ReportRow) => html`<${Severity} of=${row.severity} />` },
      { title: 'State', of: (row: ReportRow) => html`<${State} retractedAt=${row.retractedAt} />` },
      {
        title: 'Build',
        of: (row: ReportRow) =>
          row.version
            ? short(row.version)
            : row.buildId === null
              ? '–'
              : html`<code title=${row.buildId}>${row.buildId.slice(0, 8)}</code>`,
      },
      {
        title: 'Fingerprint',
        of: (row: ReportRow) => (row.fingerprint ? html`<code class="long">${row.fingerprint}</code>` : '–'),
      },
      ...(project === undefined
        ? [
            {
              title: 'Project',
              of: (row: ReportRow) => short(names.get(row.projectId) ?? row.projectId.slice(0, 8)),
            },
          ]
        : []),
    ]} />
    ${more}
  </div>`;
}

function Groups({
  project,
  names,
  search,
  onOpen,
}: ListProps & { search: string; onOpen: (fingerprint: string) => void }): VNode {
  const parameters = { ...(project && { project: project.id }), ...(search && { search }) };
  const where = whereAll(Object.keys(parameters)).replace(
    CONDITIONS.search,
    searchCondition(['title', 'fingerprint']),
  );
  const { rows, error, more } = usePages((limit) =>
    sql<GroupRow>(
      `SELECT project_id AS projectId, fingerprint, title, occurrences, builds, players,
         first_seen AS firstSeen, last_seen AS lastSeen
       FROM report_groups ${where} ORDER BY occurrences DESC, last_seen DESC, fingerprint LIMIT {limit:UInt32}`,
      { ...parameters, limit },
    ),
  );
  if (rows === undefined) return error ? html`<${Failure} error=${error} />` : html`<${Loading} />`;
  if (rows.length === 0) {
    return html`<${Empty}>
      <p>No report with a fingerprint${search && ' that matches'}.</p>
      <p>Reports with the same <code>fingerprint</code> are counted together here. The game sets the fingerprint.</p>
    <//>`;
  }
  return html`<div>
    <${Failure} error=${error} />
    <p class="status" role="status">${count(rows.length)}${more ? ' and more' : ''} ${rows.length === 1 ? 'problem' : 'problems'}, excluding retracted reports</p>
    <${Table} label="Problems, most frequent first" rows=${rows} columns=${[
      {
        title: 'Problem',
        of: (row: GroupRow) =>
          html`<span class="long">${titleOf(row.title)}</span><br /><button class="link" onClick=${() => onOpen(row.fingerprint)}><code>${row.fingerprint}</code></button>`,
      },
      { title: 'Reports', of: (row: GroupRow) => count(Number(row.occurrences)), isNumber: true },
      { title: 'Players', of: (row: GroupRow) => count(Number(row.players)), isNumber: true },
      { title: 'Builds', of: (row: GroupRow) => count(Number(row.builds)), isNumber: true },
      { title: 'First seen', of: (row: GroupRow) => html`<${Time} at=${fromClickHouse(row.firstSeen)} />` },
      { title: 'Last seen', of: (row: GroupRow) => html`<${Time} at=${fromClickHouse(row.lastSeen)} />` },
      ...(project === undefined
        ? [
            {
              title: 'Project',
              of: (row: GroupRow) => short(names.get(row.projectId) ?? row.projectId.slice(0, 8)),
            },
          ]
        : []),
    ]} />
    ${more}
  </div>`;
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
