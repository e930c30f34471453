/** The health page: request rates, response times, consumer lag, disk, memory, and suggested actions. */
import type { ConsumerLag, LagOutput, TrafficOutput } from '@questlog/schemas/http/health';
import type { LedgerAnswer } from '@questlog/schemas/http/ledger';
import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Chart } from '../chart.ts';
import { count } from '../format.ts';
import { type Advice, adviceOf, lagName } from '../health/advice.ts';
import { ClusterNodes } from '../health/clusterNodes.ts';
import { type Rates, ratesBetween } from '../health/rates.ts';
import { current, useHealth } from '../health/state.ts';
import { type Column, Failure, html, Loading, Table, withDocsLinks } from '../html.ts';
import type { Row } from '../request.ts';
import { useGet, useSql } from '../resource.ts';

type Usage = Row<never, 'disk' | 'memory'>;

const REFRESH_MS = 2_000;
const SLOW_REFRESH_MS = 10_000;
const HISTORY_MS = 10 * 60 * 1000;
/** The page computes each rate from the latest six answers of `GET /admin/traffic`, which cover ten seconds. */
const ANSWERS_PER_FIGURE = 6;
const USAGE_QUERY = `SELECT
  (SELECT toString(sum(bytes_on_disk)) FROM system.parts WHERE active AND database = currentDatabase()) AS disk,
  (SELECT toString(value) FROM system.metrics WHERE metric = 'MemoryTracking') AS memory`;

function useHistory<T extends { readonly at: string }>(next: T | undefined): readonly T[] {
  const [history, setHistory] = useState<readonly T[]>([]);
  const isRecent = ({ at }: T) => Date.parse(at) > Date.parse(next?.at ?? '') - HISTORY_MS;
  useEffect(() => {
    if (next !== undefined) setHistory((last) => [...last.filter(isRecent), next]);
  }, [next]);
  return history;
}

export function Health(): VNode {
  const traffic = useGet<TrafficOutput>('/admin/traffic', REFRESH_MS);
  const { lag, ready, ledger } = useHealth(REFRESH_MS);
  const usage = useSql<Usage>(USAGE_QUERY, {}, SLOW_REFRESH_MS);
  const answers = useHistory(traffic.value);
  const lags = useHistory(lag.value);
  const resources = [traffic, lag, ready, ledger];
  const failure = resources.find(({ error }) => error)?.error;
  if (traffic.value === undefined && !failure) return html`<${Loading} />`;
  const rates = answers
    .filter((answer) => answer.servesGames)
    .slice(1)
    .map((after, i) => ratesBetween(answers[i] ?? after, after));
  const [oldest, newest] = [answers.at(-Math.min(ANSWERS_PER_FIGURE, answers.length)), answers.at(-1)];
  const servesGames = traffic.value?.servesGames !== false;
  const isMeasured =
    servesGames && !traffic.error && oldest !== undefined && newest !== undefined && newest !== oldest;
  const now = isMeasured ? ratesBetween(oldest, newest) : undefined;
  const latest = { lag: current(lag), ready: current(ready), ledger: current(ledger) };
  const isKnown = !failure && resources.every(({ value }) => value !== undefined);
  const disk = latest.lag?.disk;
  return html`<section>
    <${Failure} error=${failure} />
    <${Verdict} advice=${adviceOf({ ...latest, rates: now })} isKnown=${isKnown} hasFailed=${failure !== undefined} />
    ${!servesGames && html`<p>This process serves only operators. The metrics of each ingest show its events and requests.</p>`}
    <div class="cards">
      <${Figure} name="Events per second" value=${perSecond(now?.events)}>accepted by this process<//>
      <${Figure} name="Requests per second" value=${perSecond(now?.requests)}>${perSecond(now?.rejected)} rejected (4xx)<//>
      <${Figure} name="Errors per second" value=${perSecond(now?.errors)}>5xx responses<//>
      <${Figure} name="Response time, p50" value=${millis(now?.p50Ms)}>half are faster<//>
      <${Figure} name="Response time, p99" value=${millis(now?.p99Ms)}>1 % are slower<//>
      <${Figure} name="Dead letters" value=${countText(current(traffic)?.deadLetters)}><a href="#/letters">open dead letters</a><//>
      <${Figure} name="Unaccounted events" value=${countText(latest.ledger?.difference?.events)}>${ledgerText(latest.ledger)}<//>
      <${Figure} name="Disk, free" value=${bytes(disk?.freeBytes)}>${diskText(disk)}<//>
      <${Figure} name="ClickHouse, on disk" value=${bytes(current(usage)?.[0]?.disk)}>tables and their indexes<//>
      <${Figure} name="ClickHouse, memory" value=${bytes(current(usage)?.[0]?.memory)}>queries and caches<//>
      <${Figure} name="Memory" value=${bytes(current(traffic)?.memoryBytes)}>of this process<//>
    </div>
    <h2>Consumers of the log</h2>
    ${latest.lag ? html`<${Table} label="Consumers of the log" rows=${latest.lag.consumers} columns=${COLUMNS} />` : lag.error ? html`<p>The lag is unknown.</p>` : html`<${Loading} />`}
    <${ClusterNodes} />
    <${Charts} rates=${rates} lags=${lags} />
  </section>`;
}

function countText(n: number | undefined): string {
  return n === undefined ? '–' : count(n);
}

function ledgerText(ledger: LedgerAnswer | undefined): string {
  if (ledger === undefined) return 'unknown';
  if (ledger.difference === null) return 'known after the projector has caught up';
  const { ageSeconds } = ledger.difference;
  return ageSeconds === 0 ? 'the ledger of the last day balances' : `since ${duration(ageSeconds * 1000)}`;
}

function Verdict(props: { advice: readonly Advice[]; isKnown: boolean; hasFailed: boolean }): VNode {
  const { advice, isKnown, hasFailed } = props;
  const isBad = advice.length > 0;
  const [state, text] = isKnown
    ? ['good', 'No problems found.']
    : hasFailed
      ? ['warn', 'The state is unknown, because a request failed.']
      : ['', 'Checking…'];
  return html`<div class=${`card verdict ${isBad ? 'bad' : state}`} role="status" aria-label="Verdict">
    ${isBad ? html`<ul>${advice.map(({ what, todo }) => html`<li key=${what}><strong>${what}</strong> ${withDocsLinks(todo)}</li>`)}</ul>` : html`<p><strong>${text}</strong></p>`}
  </div>`;
}

function Figure(props: { name: string; value: string; children?: ComponentChildren }): VNode {
  return html`<div class="card" role="group" aria-label=${props.name}>${props.name}<strong>${props.value}</strong><small>${props.children}</small></div>`;
}

const COLUMNS: readonly Column<ConsumerLag>[] = [
  ['Consumer', lagName],
  ['Group and topic', ({ group, topic }) => html`<code class="long">${group}</code> <small>${topic}</small>`],
  ['Records behind', ({ lagRecords }) => count(lagRecords), 'number'],
  ['Time behind', ({ lagMs }) => duration(lagMs), 'number'],
  [
    'Share of retention',
    ({ shareOfRetention: share }) =>
      share === null
        ? 'unknown'
        : html`<meter min="0" max="1" low="0.1" high="0.5" optimum="0" value=${share} aria-label="Share of the retention"></meter> ${percent(share)}`,
    'number',
  ],
];

function Charts({ rates, lags }: { rates: readonly Rates[]; lags: readonly LagOutput[] }): VNode {
  if (rates.length < 2) return html`<p class="status">Charts appear here while this page is open.</p>`;
  const timesOf = (answers: readonly { readonly at: string }[]) =>
    answers.map(({ at }) => Date.parse(at) / 1000);
  const seconds = (begin: string) =>
    lags.map(({ consumers }) => {
      const behind = consumers.flatMap(({ group, lagMs }) => (group.startsWith(begin) ? (lagMs ?? []) : []));
      return behind.length === 0 ? null : Math.max(...behind) / 1000;
    });
  return html`<div>
    <h2>While this page is open</h2>
    <h3>Events and requests per second</h3>
    <${Chart} label="Events and requests per second, up to the last ten minutes" times=${timesOf(rates)} series=${[
      { name: 'Events', values: rates.map(({ events }) => events) },
      { name: 'Requests', values: rates.map(({ requests }) => requests) },
    ]} />
    <h3>Response time, in milliseconds</h3>
    <${Chart} label="50th and 99th percentile of the response time, in milliseconds" times=${timesOf(rates)} series=${[
      { name: 'p50', values: rates.map(({ p50Ms }) => p50Ms) },
      { name: 'p99', values: rates.map(({ p99Ms }) => p99Ms) },
    ]} />
    <h3>Consumer lag, in seconds</h3>
    <${Chart} label="Lag of the projector and the linker, in seconds" times=${timesOf(lags)} series=${[
      { name: 'Projector', values: seconds('questlog-project') },
      { name: 'Linker', values: seconds('questlog-link') },
    ]} />
  </div>`;
}

function perSecond(n: number | undefined): string {
  return n?.toLocaleString(undefined, { maximumFractionDigits: n < 10 ? 1 : 0 }) ?? '–';
}

function millis(ms: number | null | undefined): string {
  return ms == null ? '–' : `${perSecond(ms)} ms`;
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

const SIZES = [
  ['kB', 1e3],
  ['MB', 1e6],
  ['GB', 1e9],
] as const;

function bytes(of: number | string | null | undefined): string {
  if (of == null) return '–';
  const n = Number(of);
  const [unit = 'TB', size = 1e12] = SIZES.find(([, size]) => n < 1000 * size) ?? [];
  return `${(n / size).toFixed(n / size < 10 ? 1 : 0)} ${unit}`;
}

function diskText(disk: LagOutput['disk'] | undefined): string {
  if (disk === undefined) return 'unknown';
  return disk === null ? 'this process stores no data' : `of ${bytes(disk.totalBytes)}`;
}
