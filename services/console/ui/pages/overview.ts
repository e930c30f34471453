/** The first page of the console. Each figure is a link to the page with the details. */
import type { TenantOutput } from '@questlog/schemas/http/admin';
import type { LagOutput } from '@questlog/schemas/http/health';
import type { ComponentChildren, VNode } from 'preact';
import { count, relativeTime } from '../format.ts';
import { adviceOf } from '../health/advice.ts';
import { current, type HealthState, useHealth } from '../health/state.ts';
import { type Column, Failure, fromClickHouse, html, type PageProps, Table, Time } from '../html.ts';
import { Severity, titleOf } from '../report/labels.ts';
import type { Row } from '../request.ts';
import { show, useGet, useSql } from '../resource.ts';

type Figures = { readonly seconds: number } & Row<'events' | 'sessions' | 'rejected' | 'answered' | 'failed'>;
type NewReport = Row<'id' | 'title' | 'severity' | 'receivedAt'>;

const REFRESH_MS = 10_000;
const REPORTS = 5;
/** The objectives of `deploy/monitoring/rules.yaml`. */
const MIN_ANSWERED = 0.999;
const MIN_IN_TIME = 0.99;

const OF_PROJECT = `({project:String} = '' OR project_id = toUUIDOrZero({project:String}))`;
/** With the condition on `id_at`, ClickHouse reads only recent events, because `id_at` is in the sorting key of the table. */
const FIGURES_QUERY = `SELECT 240 + toSecond(now()) AS seconds,
  (SELECT toString(sum(count)) FROM event_counts_by_minute
    WHERE minute > toStartOfMinute(now('UTC')) - INTERVAL 5 MINUTE AND ${OF_PROJECT}) AS events,
  (SELECT toString(uniq(session_id)) FROM events WHERE received_at > now() - INTERVAL 5 MINUTE
    AND id_at > now() - INTERVAL 1 DAY AND ${OF_PROJECT}) AS sessions,
  (SELECT toString(sum(count)) FROM rejects
    WHERE kind = 'rejected' AND minute > now() - INTERVAL 1 HOUR AND ${OF_PROJECT}) AS rejected,
  (SELECT (toString(sumIf(count, what IN ('accepted', 'replayed'))), toString(sumIf(count, what IN ('internal', 'unavailable'))))
    FROM received_by_process FINAL WHERE minute > now() - INTERVAL 1 DAY) AS outcomes,
  outcomes.1 AS answered, outcomes.2 AS failed`;
const SESSIONS_QUERY = `SELECT project_id, session_id, count() AS events, max(received_at) AS newest FROM events
  WHERE received_at > now() - INTERVAL 5 MINUTE AND id_at > now() - INTERVAL 1 DAY
  GROUP BY project_id, session_id ORDER BY newest DESC LIMIT 100`;
/** The events of each tenant in this month. The page Quota uses the same query. */
export const USAGE_QUERY = `SELECT tenant_id, toString(used) AS used FROM quota_usage
  WHERE month = toStartOfMonth(toDate(now('UTC')))`;
const REPORTS_QUERY = `SELECT id, title, severity, received_at AS receivedAt FROM reports
  WHERE retracted_at IS NULL AND ${OF_PROJECT} ORDER BY received_at DESC, id DESC LIMIT ${REPORTS}`;

export function Overview({ project }: PageProps): VNode {
  const parameters = { project: project?.id ?? '' };
  const figures = useSql<Figures>(FIGURES_QUERY, parameters, REFRESH_MS);
  const reports = useSql<NewReport>(REPORTS_QUERY, parameters, REFRESH_MS);
  const tenants = useGet<TenantOutput[]>('/admin/tenants', REFRESH_MS);
  const usage = useSql<Row<'tenant_id' | 'used'>>(USAGE_QUERY, {}, REFRESH_MS);
  const health = useHealth(REFRESH_MS);
  const failure = [figures, tenants, usage, ...Object.values(health)].find(({ error }) => error)?.error;
  const [now] = current(figures) ?? [];
  return html`<section>
    <${Failure} error=${failure} />
    <div class="cards narrow">
      <${HealthCard} ...${health} />
      <${Card} to="tail" name="Events per minute" value=${perMinute(now)}>stored in the last 5 minutes<//>
      <${Card} to=${`ask/${encodeURIComponent(SESSIONS_QUERY)}`} name="Active sessions" value=${numberText(now?.sessions)}>with an event in the last 5 minutes<//>
      <${Card} to="rejects" name="Rejections" value=${numberText(now?.rejected)}>in the last hour<//>
      <${Card} to="quota" name="Tenants over quota" value=${overQuota(current(tenants), current(usage))}>this month<//>
    </div>
    <h2>Objectives</h2>
    <div class="cards broad">
      <${Objective} to="rejects" name="Requests answered" share=${answeredShare(now)} minimum=${MIN_ANSWERED}>
        of valid write requests got a 2xx response in the last day
      <//>
      <${Objective} to="health" name="Events in time" ...${inTime(current(health.lag))} minimum=${MIN_IN_TIME} />
    </div>
    <div class="part-head"><h2>Newest reports</h2><a href="#/reports">All reports</a></div>
    ${show(reports, (rows) => html`<${Table} label="Newest reports" rows=${rows} columns=${COLUMNS} whenEmpty="No bug report yet." />`)}
  </section>`;
}

function Card(props: { to: string; name: string; value: string; children?: ComponentChildren }): VNode {
  const { to, name, value, children } = props;
  return html`<a class="card" href=${`#/${to}`}>${name} <strong>${value}</strong> <small>${children}</small></a>`;
}

function HealthCard(health: HealthState): VNode {
  const { lag, ready, ledger } = health;
  const latest = { lag: current(lag), ready: current(ready), ledger: current(ledger), rates: undefined };
  const advice = adviceOf(latest);
  const isKnown = latest.lag !== undefined && latest.ready !== undefined && latest.ledger !== undefined;
  const state = isKnown ? 'Good' : (lag.error ?? ready.error ?? ledger.error) ? 'Unknown' : '–';
  const problems = `${count(advice.length)} ${advice.length === 1 ? 'problem' : 'problems'}`;
  return html`<${Card} to="health" name="Health" value=${advice.length > 0 ? problems : state}>
    ${advice[0]?.what ?? (isKnown ? 'no problems found' : 'checks the log, the projection, and the ledger')}
  <//>`;
}

function Objective(props: {
  to: string;
  name: string;
  share: number | undefined;
  minimum: number;
  children?: ComponentChildren;
}): VNode {
  const { to, name, share, minimum, children } = props;
  const isMissed = share !== undefined && share < minimum;
  return html`<${Card} to=${to} name=${name} value=${share === undefined ? '–' : percent(share)}>
    ${children}; objective: ${percent(minimum)}${isMissed && html` <span class="tag bad">missed</span>`}
  <//>`;
}

/** Rounds down, so that a missed objective never looks like a met objective. */
function percent(share: number): string {
  const rounded = Math.floor(Number((10_000 * share).toFixed(6))) / 100;
  return `${rounded.toLocaleString(undefined, { maximumFractionDigits: 2 })}\u00a0%`;
}

function answeredShare(figures: Figures | undefined): number | undefined {
  const [answered, failed] = [Number(figures?.answered ?? 0), Number(figures?.failed ?? 0)];
  return answered + failed === 0 ? undefined : answered / (answered + failed);
}

function inTime(lag: LagOutput | undefined): { share: number | undefined; children: string } {
  const { since, lateShare } = lag?.projection ?? {};
  const age = since === undefined ? '' : `, first measured ${relativeTime(Date.parse(since), Date.now())}`;
  return {
    share: lateShare === undefined ? undefined : 1 - lateShare,
    children: `of the time, ClickHouse had all events older than 20 s${age}`,
  };
}

function perMinute(figures: Figures | undefined): string {
  if (figures === undefined) return '–';
  const perSecond = Number(figures.events) / figures.seconds;
  return count(Math.round(60 * perSecond));
}

function numberText(text: string | undefined): string {
  return text === undefined ? '–' : count(Number(text));
}

function overQuota(
  tenants: readonly TenantOutput[] | undefined,
  usage: readonly Row<'tenant_id' | 'used'>[] | undefined,
): string {
  if (tenants === undefined || usage === undefined) return '–';
  const used = new Map(usage.map((row) => [row.tenant_id, Number(row.used)]));
  const isOver = ({ id, monthlySoftQuota }: TenantOutput) =>
    monthlySoftQuota !== null && (used.get(id) ?? 0) > monthlySoftQuota;
  return count(tenants.filter(isOver).length);
}

const COLUMNS: readonly Column<NewReport>[] = [
  ['Received', ({ receivedAt }) => html`<${Time} at=${fromClickHouse(receivedAt)} />`],
  ['Report', ({ id, title }) => html`<a class="long" href=${`#/report/${id}`}>${titleOf(title)}</a>`],
  ['Severity', ({ severity }) => html`<${Severity} of=${severity} />`],
];
