/** The quota page. For each tenant, it shows the events of the month, a forecast for the whole month, and the events by day. */
import type { TenantOutput } from '@questlog/schemas/http/admin';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { localMidnight } from '../answerChart.ts';
import { Chart } from '../chart.ts';
import { Filters } from '../form.ts';
import { count } from '../format.ts';
import { Empty, html, type PageProps } from '../html.ts';
import { get, sql } from '../request.ts';
import { show, useResource, useSql } from '../resource.ts';
import { USAGE_QUERY } from './overview.ts';

type Usage = TenantOutput & { readonly used: number; readonly forecast: number };

interface Month {
  readonly usages: readonly Usage[];
  readonly nowMs: number;
}

const REFRESH_MS = 10_000;
const MAX_TENANTS = 60;
const DAYS = 31;
const DAY_MS = 24 * 60 * 60 * 1000;
const MIN_SPAN_MS = DAY_MS;
const LAST_WEEK_QUERY = `SELECT tenant_id, toString(sum(count)) AS events, toUnixTimestamp(min(minute)) AS first,
    toUnixTimestamp(now()) AS now
  FROM event_counts_by_minute WHERE minute >= now('UTC') - INTERVAL 7 DAY GROUP BY tenant_id`;
const DAYS_QUERY = `SELECT toString(toDate(minute)) AS day, toString(sum(count)) AS events FROM event_counts_by_minute
  WHERE tenant_id = {tenant:UUID} AND minute >= toDateTime(toDate(now('UTC')) - ${DAYS - 1}, 'UTC') GROUP BY day ORDER BY day`;

async function loadMonth(signal: AbortSignal): Promise<Month> {
  const [tenants, used, lastWeek] = await Promise.all([
    get<TenantOutput[]>('/admin/tenants', signal),
    sql<{ tenant_id: string; used: string }>(USAGE_QUERY, {}, signal),
    sql<{ tenant_id: string; events: string; first: number; now: number }>(LAST_WEEK_QUERY, {}, signal),
  ]);
  const usedBy = new Map(used.map((row) => [row.tenant_id, Number(row.used)]));
  const rateOf = new Map(
    lastWeek.map(({ tenant_id, events, first, now }) => [
      tenant_id,
      Number(events) / Math.max((now - first) * 1000, MIN_SPAN_MS),
    ]),
  );
  // Uses the clock of ClickHouse if possible, because the clock of the operator's machine can be wrong.
  const nowMs = (lastWeek[0]?.now ?? Date.now() / 1000) * 1000;
  const usages = tenants.map((tenant) => {
    const usedByTenant = usedBy.get(tenant.id) ?? 0;
    const forecast = Math.round(usedByTenant + (rateOf.get(tenant.id) ?? 0) * (endOfMonth(nowMs) - nowMs));
    return { ...tenant, used: usedByTenant, forecast };
  });
  return { usages: usages.sort((a, b) => share(b) - share(a) || b.used - a.used), nowMs };
}

function endOfMonth(nowMs: number): number {
  const now = new Date(nowMs);
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1);
}

/** Returns the used share of the quota. Returns -1 without a quota, so that the tenant is at the end of the list. */
function share({ used, monthlySoftQuota }: Usage): number {
  return monthlySoftQuota === null ? -1 : used / Math.max(monthlySoftQuota, 1);
}

export function Quota({ project }: PageProps): VNode {
  const month = useResource('', loadMonth, REFRESH_MS);
  return html`<section>${show(month, (value) => html`<${Usages} ...${value} project=${project} />`)}</section>`;
}

const FIELDS = [{ name: 'name', label: 'Tenant', placeholder: 'part of the name' }] as const;

function Usages({ usages, nowMs, project }: Month & Pick<PageProps, 'project'>): VNode {
  const [chosen, setChosen] = useState('');
  const [{ name = '' }, setFilters] = useState<{ readonly name?: string }>({});
  if (usages.length === 0) {
    return html`<${Empty}><p>No tenant yet. <a href="#/manage">Create a tenant</a> with a quota.</p><//>`;
  }
  const found = usages.filter(
    (usage) =>
      (project === undefined || usage.id === project.tenantId) &&
      usage.name.toLowerCase().includes(name.toLowerCase()),
  );
  const shown = found.slice(0, MAX_TENANTS);
  const open = shown.find(({ id }) => id === chosen) ?? shown[0];
  const now = new Date(nowMs).toLocaleString('en', { month: 'long', year: 'numeric', timeZone: 'UTC' });
  const daysLeft = Math.ceil((endOfMonth(nowMs) - nowMs) / DAY_MS);
  return html`
    <p class="status">${now} (UTC), ${daysLeft} ${daysLeft === 1 ? 'day' : 'days'} left. Events above a quota are stored and
      flagged, never rejected. The forecast assumes the rate of the last seven days.</p>
    ${
      project === undefined &&
      html`<${Filters} fields=${FIELDS} onFilter=${setFilters}>
        <span role="status">${count(shown.length)} of ${count(usages.length)} tenants</span>
      <//>`
    }
    <ul class="gauges">${shown.map((usage) => html`<${Gauge} key=${usage.id} usage=${usage} isOpen=${usage === open} onOpen=${() => setChosen(usage.id)} />`)}</ul>
    ${open && html`<${Days} key=${open.id} tenant=${open} nowMs=${nowMs} />`}`;
}

function Gauge(props: { usage: Usage; isOpen: boolean; onOpen: () => void }): VNode {
  const { usage, isOpen, onOpen } = props;
  const { name, used, monthlySoftQuota: quota, forecast } = usage;
  const over = quota === null ? 0 : Math.max(0, used - quota);
  const scale = 1.05 * Math.max(used, forecast, quota ?? 0, 1);
  const at = (events: number): number => (1000 * events) / scale;
  const overText = over > 0 ? `, ${count(over)} over quota` : '';
  return html`<li class="card gauge">
    <h2>${name}</h2>
    <p><strong>${count(used)}</strong> ${quota === null ? 'events, no quota' : html`of ${count(quota)} events (${percent(used, quota)})`}
      ${over > 0 && html` <span class="tag bad">${count(over)} over quota</span>`}</p>
    ${
      quota !== null &&
      html`<svg viewBox="0 0 1000 24" preserveAspectRatio="none" role="img" aria-label=${`${name}: ${count(used)} of ${count(quota)} events${overText}`}>
        <rect class="room" width="1000" height="24" />
        <rect class="forecast" width=${at(forecast)} height="24" />
        <rect class="used" width=${at(used - over)} height="24" />
        <rect class="over" x=${at(used - over)} width=${at(over)} height="24" />
        <rect class="quota" x=${at(quota) - 2} width="4" height="24" />
      </svg>`
    }
    <p><small>${forecastText(usage)}</small></p>
    <button class="plain" aria-pressed=${isOpen} aria-label=${`Days of ${name}`} onClick=${onOpen}>Days</button>
  </li>`;
}

function forecastText({ used, forecast, monthlySoftQuota: quota }: Usage): string {
  const text = `Forecast for the end of the month: ${count(forecast)}`;
  if (quota === null || forecast <= quota) return `${text}.`;
  if (used > quota)
    return `${text}, ${percent(forecast, quota)} of the quota. Increase the quota on the page Manage.`;
  return `${text}, above the quota. Increase the quota on the page Manage, or make the game send fewer events.`;
}

function percent(part: number, whole: number): string {
  return whole === 0 ? '–' : `${Math.round((100 * part) / whole)}\u00a0%`;
}

function Days({ tenant, nowMs }: { tenant: Usage; nowMs: number }): VNode {
  const rows = useSql<{ day: string; events: string }>(DAYS_QUERY, { tenant: tenant.id }, REFRESH_MS);
  const events = new Map(rows.value?.map((row) => [row.day, Number(row.events)]));
  const days = Array.from({ length: DAYS }, (_, i) =>
    new Date(nowMs - (DAYS - 1 - i) * DAY_MS).toISOString().slice(0, 10),
  );
  const total = [...events.values()].reduce((sum, n) => sum + n, 0);
  const label = `Events of ${tenant.name} by UTC day, the last ${DAYS} days: ${count(total)} in total`;
  return html`<section aria-label="Days">
    <h2>${tenant.name}, by day</h2>
    ${show(rows, () =>
      total === 0
        ? html`<${Empty}><p>No events in ${DAYS} days. <a href="#/manage">Send a test event</a>.</p><//>`
        : html`<${Chart} label=${label} areBars times=${days.map(localMidnight)}
            series=${[{ name: 'Events', values: days.map((day) => events.get(day) ?? 0) }]} />`,
    )}
  </section>`;
}
