/** How this Questlog does: what it answers, how far its consumers are behind, what fills up; and what to do where it is bad. */
import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Chart } from '../chart.ts';
import { type Advice, adviceOf, type Books, type Lag, lagName, type Ready } from '../health/advice.ts';
import { keptHistory, type Rates, ratesBetween, type Scrape } from '../health/metricsHistory.ts';
import { parseMetrics, total } from '../health/prometheus.ts';
import { count, Failure, html, Table, useAsked, Waiting } from '../html.ts';
import { json, request, sql } from '../request.ts';

interface Used {
  readonly disk: string | null;
  readonly memory: string | null;
}

const LOOK_EVERY_MS = 2_000;
const SELDOM_MS = 10_000;
/** A figure is about the time between so many looks: ten seconds. */
const LOOKS_A_FIGURE = 6;
const USED = `SELECT
  (SELECT toString(sum(bytes_on_disk)) FROM system.parts WHERE active AND database = currentDatabase()) AS disk,
  (SELECT toString(value) FROM system.metrics WHERE metric = 'MemoryTracking') AS memory`;

async function scrape(): Promise<Scrape> {
  const text = await (await request('GET', '/metrics')).text();
  return { atMs: performance.timeOrigin + performance.now(), samples: parseMetrics(text) };
}

/** A process that is not ready says so with a 503, which is no failure to answer. */
async function readiness(): Promise<Ready> {
  const response = await fetch('/readyz').catch(() => {
    throw new Error('Questlog does not answer. Is it running?');
  });
  return await response.json();
}

/** The last ten minutes, built up while the page is open. */
function useHistory<T extends { readonly atMs: number }>(next: T | undefined): readonly T[] {
  const [history, setHistory] = useState<readonly T[]>([]);
  useEffect(() => {
    if (next !== undefined) setHistory((last) => keptHistory(last, next));
  }, [next]);
  return history;
}

export function Health(): VNode {
  const scraped = useAsked('metrics', scrape, LOOK_EVERY_MS);
  const lag = useAsked('lag', async () => withTime(await json<Lag>('GET', '/admin/lag')), LOOK_EVERY_MS);
  const ready = useAsked('ready', readiness, LOOK_EVERY_MS);
  const books = useAsked('books', ledger, SELDOM_MS);
  const used = useAsked('used', () => sql<Used>(USED), SELDOM_MS);
  const scrapes = useHistory(scraped.value);
  const lags = useHistory(lag.value);
  if (scraped.value === undefined) {
    return scraped.error ? html`<${Failure} error=${scraped.error} />` : html`<${Waiting} />`;
  }
  const rates = scrapes.slice(1).map((after, i) => ratesBetween(scrapes[i] ?? after, after));
  const [oldest, newest] = [scrapes.at(-Math.min(LOOKS_A_FIGURE, scrapes.length)), scrapes.at(-1)];
  const now = oldest === undefined || newest === oldest ? undefined : ratesBetween(oldest, newest ?? oldest);
  const memory = total(scraped.value.samples, 'process_resident_memory_bytes');
  const letters = total(scraped.value.samples, 'questlog_dead_letters_open') ?? 0;
  const failure = scraped.error ?? lag.error ?? ready.error;
  return html`<section>
    <${Failure} error=${failure} />
    <${Verdict} advice=${adviceOf({ books: books.value, lag: lag.value, ready: ready.value, rates: now })} isKnown=${!failure && lag.value !== undefined && ready.value !== undefined} />
    <div class="cards">
      <${Figure} name="Events a second" value=${perSecond(now?.events)}>accepted by this process<//>
      <${Figure} name="Requests a second" value=${perSecond(now?.requests)}>${perSecond(now?.refused)} refused (4xx)<//>
      <${Figure} name="Errors a second" value=${perSecond(now?.errors)}>answered with a 5xx<//>
      <${Figure} name="p50 of answers" value=${millis(now?.p50Ms)}>half are faster<//>
      <${Figure} name="p99 of answers" value=${millis(now?.p99Ms)}>one in a hundred is slower<//>
      <${Figure} name="Dead letters" value=${count(letters)}><a href="#/letters">wait for a decision</a><//>
      <${Figure} name="Unaccounted events" value=${books.value?.difference ? count(books.value.difference.events) : '–'}>${booksText(books.value)}<//>
      <${Figure} name="Disk, free" value=${lag.value?.disk ? bytes(lag.value.disk.freeBytes) : '–'}>${diskText(lag.value)}<//>
      <${Figure} name="ClickHouse, on disk" value=${bytesText(used.value?.[0]?.disk)}>tables and their indexes<//>
      <${Figure} name="ClickHouse, memory" value=${bytesText(used.value?.[0]?.memory)}>what its queries and caches hold<//>
      <${Figure} name="Memory" value=${bytes(memory)}>of this process<//>
    </div>
    <h2>Consumers of the log</h2>
    ${lag.value ? html`<${Consumers} lag=${lag.value} />` : html`<${Waiting} />`}
    <${Charts} rates=${rates} lags=${lags} />
  </section>`;
}

/** Of minutes only the last one: what differs is told of the last day all the same. */
async function ledger(): Promise<Books> {
  const from = new Date(performance.timeOrigin + performance.now() - 60_000).toISOString();
  return await json<Books>('GET', `/admin/ledger?from=${from}`);
}

function booksText(books: Books | undefined): string {
  if (books?.difference === null) return 'known once the projector has caught up';
  const age = books?.difference?.ageSeconds ?? 0;
  return age === 0 ? 'the last day’s books are even' : `since ${duration(age * 1000)}`;
}

function withTime(lag: Lag): Lag & { readonly atMs: number } {
  return { ...lag, atMs: Date.parse(lag.at) };
}

function Verdict({ advice, isKnown }: { advice: readonly Advice[]; isKnown: boolean }): VNode {
  const isBad = advice.length > 0;
  const well = isKnown ? 'All is well.' : 'Looking…';
  return html`<div class=${`card verdict ${isBad ? 'bad' : isKnown ? 'good' : ''}`} role="status" aria-label="Verdict">
    ${isBad ? html`<ul>${advice.map(({ what, todo }) => html`<li key=${what}><strong>${what}</strong> ${todo}</li>`)}</ul>` : html`<p><strong>${well}</strong></p>`}
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
      of: ({ group, topic }: Row) => html`<code>${group}</code> <small>${topic}</small>`,
    },
    { title: 'Records behind', of: ({ lagRecords }: Row) => count(lagRecords), isNumber: true },
    { title: 'Time behind', of: ({ lagMs }: Row) => duration(lagMs), isNumber: true },
    {
      title: 'Of what the log keeps',
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
  if (rates.length < 2) return html`<p class="status">Charts build up here while this page is open.</p>`;
  const times = rates.map(({ atMs }) => atMs / 1000);
  const seconds = (begin: string) =>
    lags.map(({ consumers }) => {
      const behind = consumers.filter(({ group }) => group.startsWith(begin)).map(({ lagMs }) => lagMs ?? 0);
      return Math.max(...behind) / 1000;
    });
  return html`<div>
    <h2>While this page is open</h2>
    <h3>Events and requests a second</h3>
    <${Chart} label="Events and requests a second, at most the last ten minutes" times=${times} series=${[
      { name: 'Events', values: rates.map(({ events }) => events) },
      { name: 'Requests', values: rates.map(({ requests }) => requests) },
    ]} />
    <h3>Time of an answer, in milliseconds</h3>
    <${Chart} label="The 50th and 99th percentile of the time of an answer, in milliseconds" times=${times} series=${[
      { name: 'p50', values: rates.map(({ p50Ms }) => p50Ms) },
      { name: 'p99', values: rates.map(({ p99Ms }) => p99Ms) },
    ]} />
    <h3>Time behind, in seconds</h3>
    <${Chart} label="How far projector and linker are behind, in seconds" times=${lags.map(({ atMs }) => atMs / 1000)} series=${[
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

function diskText(lag: Lag | undefined): string {
  if (lag === undefined) return '';
  return lag.disk === null ? 'this process keeps no data' : `of ${bytes(lag.disk.totalBytes)}`;
}
