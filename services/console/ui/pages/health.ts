/** The health page: request rates, response times, consumer lag, disk, memory, and suggested actions. */
import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Chart } from '../chart.ts';
import { count } from '../format.ts';
import { type Advice, adviceOf, type Lag, type Ledger, lagName, type Ready } from '../health/advice.ts';
import { appendToHistory, type Rates, ratesBetween, type Scrape } from '../health/metricsHistory.ts';
import { parseMetrics, total } from '../health/prometheus.ts';
import { Failure, html, Loading, type QueryState, Table, useQuery } from '../html.ts';
import { json, request, sql } from '../request.ts';

interface Usage {
  readonly disk: string | null;
  readonly memory: string | null;
}

const REFRESH_MS = 2_000;
const SLOW_REFRESH_MS = 10_000;
/** The page computes each rate from the latest six scrapes of `GET /metrics`, which cover ten seconds. */
const SCRAPES_PER_FIGURE = 6;
const USAGE_QUERY = `SELECT
  (SELECT toString(sum(bytes_on_disk)) FROM system.parts WHERE active AND database = currentDatabase()) AS disk,
  (SELECT toString(value) FROM system.metrics WHERE metric = 'MemoryTracking') AS memory`;

async function scrape(): Promise<Scrape> {
  const text = await (await request('GET', '/metrics')).text();
  return { atMs: performance.timeOrigin + performance.now(), samples: parseMetrics(text) };
}

/** A process that is not ready answers `GET /readyz` with the status 503 and a body. */
async function readiness(): Promise<Ready> {
  const response = await fetch('/readyz').catch(() => {
    throw new Error('Questlog does not answer. Is it running?');
  });
  return await response.json();
}

function useHistory<T extends { readonly atMs: number }>(next: T | undefined): readonly T[] {
  const [history, setHistory] = useState<readonly T[]>([]);
  useEffect(() => {
    if (next !== undefined) setHistory((last) => appendToHistory(last, next));
  }, [next]);
  return history;
}

export function Health(): VNode {
  const scraped = useQuery('metrics', scrape, REFRESH_MS);
  const lag = useQuery('lag', async () => withTime(await json<Lag>('GET', '/admin/lag')), REFRESH_MS);
  const ready = useQuery('ready', readiness, REFRESH_MS);
  const ledger = useQuery('ledger', requestLedger, SLOW_REFRESH_MS);
  const usage = useQuery('used', () => sql<Usage>(USAGE_QUERY), SLOW_REFRESH_MS);
  const scrapes = useHistory(scraped.value);
  const lags = useHistory(lag.value);
  const queries = [scraped, lag, ready, ledger];
  const failure = queries.find(({ error }) => error)?.error;
  if (scraped.value === undefined && !failure) return html`<${Loading} />`;
  const rates = scrapes.slice(1).map((after, i) => ratesBetween(scrapes[i] ?? after, after));
  const [oldest, newest] = [scrapes.at(-Math.min(SCRAPES_PER_FIGURE, scrapes.length)), scrapes.at(-1)];
  const isMeasured = !scraped.error && oldest !== undefined && newest !== undefined && newest !== oldest;
  const now = isMeasured ? ratesBetween(oldest, newest) : undefined;
  const samples = current(scraped)?.samples;
  const metric = (name: string) => samples && total(samples, name);
  const deadLetters = samples && (metric('questlog_dead_letters_open') ?? 0);
  const answers = { lag: current(lag), ready: current(ready), ledger: current(ledger) };
  const isKnown = !failure && queries.every(({ value }) => value !== undefined);
  const { difference } = answers.ledger ?? {};
  const disk = answers.lag?.disk;
  return html`<section>
    <${Failure} error=${failure} />
    <${Verdict} advice=${adviceOf({ ...answers, rates: now })} isKnown=${isKnown} hasFailed=${failure !== undefined} />
    <div class="cards">
      <${Figure} name="Events per second" value=${perSecond(now?.events)}>accepted by this process<//>
      <${Figure} name="Requests per second" value=${perSecond(now?.requests)}>${perSecond(now?.rejected)} rejected (4xx)<//>
      <${Figure} name="Errors per second" value=${perSecond(now?.errors)}>5xx responses<//>
      <${Figure} name="Response time, p50" value=${millis(now?.p50Ms)}>half are faster<//>
      <${Figure} name="Response time, p99" value=${millis(now?.p99Ms)}>1 % are slower<//>
      <${Figure} name="Dead letters" value=${countText(deadLetters)}><a href="#/letters">open dead letters</a><//>
      <${Figure} name="Unaccounted events" value=${countText(difference?.events)}>${ledgerText(answers.ledger)}<//>
      <${Figure} name="Disk, free" value=${bytes(disk?.freeBytes)}>${diskText(disk)}<//>
      <${Figure} name="ClickHouse, on disk" value=${bytesText(current(usage)?.[0]?.disk)}>tables and their indexes<//>
      <${Figure} name="ClickHouse, memory" value=${bytesText(current(usage)?.[0]?.memory)}>queries and caches<//>
      <${Figure} name="Memory" value=${bytes(metric('process_resident_memory_bytes'))}>of this process<//>
    </div>
    <h2>Consumers of the log</h2>
    ${answers.lag ? html`<${Consumers} lag=${answers.lag} />` : lag.error ? html`<p>The lag is unknown.</p>` : html`<${Loading} />`}
    <${Charts} rates=${rates} lags=${lags} />
  </section>`;
}

/** Returns undefined after a failed request, because the value of an earlier request does not show the current state. */
function current<T>({ value, error }: QueryState<T>): T | undefined {
  return error === undefined ? value : undefined;
}

function countText(n: number | undefined): string {
  return n === undefined ? '–' : count(n);
}

/** Requests one minute of the ledger, because only `difference` is used. This field always covers the last day. */
async function requestLedger(): Promise<Ledger> {
  const from = new Date(performance.timeOrigin + performance.now() - 60_000).toISOString();
  return await json<Ledger>('GET', `/admin/ledger?from=${from}`);
}

function ledgerText(ledger: Ledger | undefined): string {
  if (ledger === undefined) return 'unknown';
  if (ledger.difference === null) return 'known after the projector has caught up';
  const { ageSeconds } = ledger.difference;
  return ageSeconds === 0 ? 'the ledger of the last day balances' : `since ${duration(ageSeconds * 1000)}`;
}

function withTime(lag: Lag): Lag & { readonly atMs: number } {
  return { ...lag, atMs: Date.parse(lag.at) };
}

function Verdict(props: { advice: readonly Advice[]; isKnown: boolean; hasFailed: boolean }): VNode {
  const { advice, isKnown, hasFailed } = props;
  const isBad = advice.length > 0;
  const state = isBad ? 'bad' : isKnown ? 'good' : hasFailed ? 'warn' : '';
  const text = isKnown
    ? 'No problems found.'
    : hasFailed
      ? 'The state is unknown, because a request failed.'
      : 'Checking…';
  return html`<div class=${`card verdict ${state}`} role="status" aria-label="Verdict">
    ${isBad ? html`<ul>${advice.map(({ what, todo }) => html`<li key=${what}><strong>${what}</strong> ${todo}</li>`)}</ul>` : html`<p><strong>${text}</strong></p>`}
  </div>`;
}

function Figure(props: { name: string; value: string; children?: ComponentChildren }): VNode {
  return html`<div class="card" role="group" aria-label=${props.name}>${props.name}<strong>${props.value}</strong><small>${props.children}</small></div>`;
}

function Consumers({ lag }: { lag: Lag }): VNode {
  type Row = Lag['consumers'][number];
  const columns = [
    { title: 'Consumer', of: (row: Row) => lagName(row) },
    {
      title: 'Group and topic',
      of: ({ group, topic }: Row) => html`<code class="long">${group}</code> <small>${topic}</small>`,
    },
    { title: 'Records behind', of: ({ lagRecords }: Row) => count(lagRecords), isNumber: true },
    { title: 'Time behind', of: ({ lagMs }: Row) => duration(lagMs), isNumber: true },
    {
      title: 'Share of retention',
      of: ({ shareOfRetention: share }: Row) =>
        share === null
          ? 'unknown'
          : html`<meter min="0" max="1" low="0.1" high="0.5" optimum="0" value=${share} aria-label="Share of the retention"></meter> ${percent(share)}`,
      isNumber: true,
    },
  ];
  return html`<${Table} label="Consumers of the log" rows=${lag.consumers} columns=${columns} />`;
}

function Charts({
  rates,
  lags,
}: {
  rates: readonly Rates[];
  lags: readonly (Lag & { readonly atMs: number })[];
}): VNode {
  if (rates.length < 2) return html`<p class="status">Charts appear here while this page is open.</p>`;
  const times = rates.map(({ atMs }) => atMs / 1000);
  const seconds = (begin: string) =>
    lags.map(({ consumers }) => {
      const behind = consumers.flatMap(({ group, lagMs }) => (group.startsWith(begin) ? (lagMs ?? []) : []));
      return behind.length === 0 ? null : Math.max(...behind) / 1000;
    });
  return html`<div>
    <h2>While this page is open</h2>
    <h3>Events and requests per second</h3>
    <${Chart} label="Events and requests per second, up to the last ten minutes" times=${times} series=${[
      { name: 'Events', values: rates.map(({ events }) => events) },
      { name: 'Requests', values: rates.map(({ requests }) => requests) },
    ]} />
    <h3>Response time, in milliseconds</h3>
    <${Chart} label="50th and 99th percentile of the response time, in milliseconds" times=${times} series=${[
      { name: 'p50', values: rates.map(({ p50Ms }) => p50Ms) },
      { name: 'p99', values: rates.map(({ p99Ms }) => p99Ms) },
    ]} />
    <h3>Consumer lag, in seconds</h3>
    <${Chart} label="Lag of the projector and the linker, in seconds" times=${lags.map(({ atMs }) => atMs / 1000)} series=${[
      { name: 'Projector', values: seconds('questlog-project') },
      { name: 'Linker', values: seconds('questlog-link') },
    ]} />
  </div>`;
}

function perSecond(n: number | undefined): string {
  if (n === undefined) return '–';
  return n.toLocaleString(undefined, { maximumFractionDigits: n < 10 ? 1 : 0 });
}

function millis(ms: number | null | undefined): string {
  return ms === null || ms === undefined
    ? '–'
    : `${ms.toLocaleString(undefined, { maximumFractionDigits: ms < 10 ? 1 : 0 })} ms`;
}

function duration(ms: number | null): string {
  if (ms === null) return 'unknown';
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  return `${(ms / 3_600_000).toFixed(1)} h`;
}

function percent(share: number): string {
  return share > 0 && share < 0.001 ? '< 0.1 %' : `${(100 * share).toFixed(1)} %`;
}

function bytesText(text: string | null | undefined): string {
  return bytes(text == null ? undefined : Number(text));
}

function bytes(n: number | undefined): string {
  if (n === undefined) return '–';
  const [unit = 'TB', of = 1e12] =
    (
      [
        ['kB', 1e3],
        ['MB', 1e6],
        ['GB', 1e9],
      ] as const
    ).find(([, size]) => n < 1000 * size) ?? [];
  return `${(n / of).toFixed(n / of < 10 ? 1 : 0)} ${unit}`;
}

function diskText(disk: Lag['disk'] | undefined): string {
  if (disk === undefined) return 'unknown';
  return disk === null ? 'this process stores no data' : `of ${bytes(disk.totalBytes)}`;
}
