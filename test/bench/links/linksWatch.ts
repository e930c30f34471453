/** Samples the product's metrics under load, and waits until the product has caught up. */
import { TOPICS } from '@questlog/schemas/topics/topics';
import { eventually } from '../../e2e/builders.ts';
import type { Product } from '../../e2e/product.ts';
import { cpuMicrosOf } from '../processFigures.ts';

export interface LargestLag {
  readonly events: number;
  readonly reports: number;
}

export interface LookUpFigures {
  readonly kind: string;
  readonly count: number;
  readonly meanS: number;
  /** Upper bound of the histogram bucket that contains the 99th percentile. */
  readonly p99BelowS: number;
}

/** One sample of the loaded product. */
export interface Sample {
  readonly atMs: number;
  readonly cpuMicros: number;
  /** Rows of links in ClickHouse. */
  readonly links: number;
  /** True if linker and projector have processed all of their topics. */
  readonly hasNoLag: boolean;
}

const EVERY_MS = 500;
const LINKER_LAG = 'questlog_linker_lag_records';
const PROJECTOR_LAG = 'questlog_projector_lag_records';
const LOOK_UPS = 'questlog_linker_look_up_duration_seconds';

export function watchLag(product: Product): { largest(): LargestLag; stop(): Promise<void> } {
  let largest: LargestLag = { events: 0, reports: 0 };
  let looking: Promise<void> | undefined;
  const look = async (): Promise<void> => {
    const lags = (await metricsOf(product)).filter(({ name }) => name === LINKER_LAG);
    const of = (topic: string): number => lags.find(({ labels }) => labels['topic'] === topic)?.value ?? 0;
    largest = {
      events: Math.max(largest.events, of(TOPICS.events)),
      reports: Math.max(largest.reports, of(TOPICS.reportLinks)),
    };
    looking = undefined;
  };
  const timer = setInterval(() => {
    looking ??= look();
  }, EVERY_MS);
  return {
    largest: () => largest,
    stop: async () => {
      clearInterval(timer);
      await looking;
    },
  };
}

/** Samples until the predicate holds. */
export async function sampleUntil(
  product: Product,
  isThere: (samples: readonly Sample[]) => boolean,
  withinMs: number,
): Promise<readonly Sample[]> {
  const samples: Sample[] = [];
  const look = async (): Promise<readonly Sample[]> => {
    const last = samples.at(-1);
    const isDue = last === undefined || performance.now() - last.atMs >= EVERY_MS;
    if (isDue) samples.push(await sampleOf(product));
    return samples;
  };
  return await eventually(look, isThere, withinMs);
}

export async function lookUpsOf(product: Product): Promise<LookUpFigures[]> {
  const metrics = await metricsOf(product);
  const figureOf = (suffix: string, kind: string): number =>
    metrics.find(({ name, labels }) => name === LOOK_UPS + suffix && labels['kind'] === kind)?.value ?? 0;
  const kinds = metrics.filter(({ name }) => name === `${LOOK_UPS}_count`);
  return kinds.map(({ labels, value: count }) => {
    const kind = labels['kind'] ?? '';
    const buckets = metrics.filter(
      ({ name, labels }) => name === `${LOOK_UPS}_bucket` && labels['kind'] === kind,
    );
    const bound = buckets.find(({ value }) => value >= 0.99 * count)?.labels['le'] ?? '+Inf';
    const p99BelowS = bound === '+Inf' ? Number.POSITIVE_INFINITY : Number(bound);
    return { kind, count, meanS: figureOf('_sum', kind) / count, p99BelowS };
  });
}

async function sampleOf(product: Product): Promise<Sample> {
  const lags = (await metricsOf(product)).filter(({ name }) => name === LINKER_LAG || name === PROJECTOR_LAG);
  const [row] = await product.sql<{ links: string }>(
    `SELECT toString(count()) AS links FROM report_link_versions WHERE state = 'linked'`,
  );
  return {
    atMs: performance.now(),
    cpuMicros: cpuMicrosOf(product.pid),
    links: Number(row?.links),
    hasNoLag: lags.every(({ value }) => value === 0),
  };
}

interface Metric {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Asks for the health first: that measures the lags. */
async function metricsOf(product: Product): Promise<Metric[]> {
  await product.admin('GET', '/readyz');
  const text = (await product.admin('GET', '/metrics')).text();
  return [...text.matchAll(/^(?<name>questlog_\w+)(?:\{(?<labels>.*)\})? (?<value>\S+)$/gm)].map(
    ({ groups }) => {
      const pairs = [...(groups?.['labels'] ?? '').matchAll(/(?<label>\w+)="(?<text>[^"]*)"/g)];
      return {
        name: groups?.['name'] ?? '',
        labels: Object.fromEntries(pairs.map((pair) => [pair.groups?.['label'], pair.groups?.['text']])),
        value: Number(groups?.['value']),
      };
    },
  );
}
