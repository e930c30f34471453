/** Parses the text format of Prometheus, and computes increases and quantiles as PromQL does. */

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export type Labels = Sample['labels'];

export function parseMetrics(text: string): Sample[] {
  return text.split('\n').flatMap((line) => {
    const [, name, labels = '', value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/.exec(line) ?? [];
    return name === undefined || value === undefined
      ? []
      : [{ name, labels: labelsOf(labels), value: numberOf(value) }];
  });
}

function labelsOf(text: string): Labels {
  const pairs = text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g);
  return Object.fromEntries(
    Array.from(pairs, ([, name = '', value = '']) => [
      name,
      value.replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped)),
    ]),
  );
}

function numberOf(text: string): number {
  return Number(text.replace('Inf', 'Infinity'));
}

/** Returns the sum of all samples with this name, or undefined if no sample has this name. */
export function total(
  samples: readonly Sample[],
  name: string,
  isWanted: (labels: Labels) => boolean = () => true,
): number | undefined {
  const found = samples.filter((sample) => sample.name === name && isWanted(sample.labels));
  return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0);
}

/** Returns the increase of a counter. A counter that became smaller was reset, so the increase is the new value. */
export function increase(before: number, after: number): number {
  return after < before ? after : after - before;
}

/** Computes `histogram_quantile(q, sum by (le) (increase(name)))`. Returns undefined without new observations. */
export function quantile(
  q: number,
  [before, after]: readonly [readonly Sample[], readonly Sample[]],
  name: string,
  isWanted: (labels: Labels) => boolean = () => true,
): number | undefined {
  const earlier = bucketsOf(before, name, isWanted);
  const buckets = [...bucketsOf(after, name, isWanted)]
    .map(([bound, count]) => ({ bound, count: increase(earlier.get(bound) ?? 0, count) }))
    .sort((a, b) => a.bound - b.bound);
  const observed = buckets.at(-1)?.count ?? 0;
  if (observed === 0) return undefined;
  const rank = q * observed;
  const at = buckets.findIndex(({ count }) => count >= rank);
  const { bound: lower, count: below } = buckets[at - 1] ?? { bound: 0, count: 0 };
  const { bound: upper, count } = buckets[at] ?? { bound: Number.POSITIVE_INFINITY, count: 0 };
  if (upper === Number.POSITIVE_INFINITY) return lower;
  return lower + (upper - lower) * ((rank - below) / (count - below));
}

function bucketsOf(
  samples: readonly Sample[],
  name: string,
  isWanted: (labels: Labels) => boolean,
): Map<number, number> {
  const counts = new Map<number, number>();
  for (const { name: found, labels, value } of samples) {
    if (found !== `${name}_bucket` || !isWanted(labels)) continue;
    const bound = numberOf(labels['le'] ?? '');
    counts.set(bound, (counts.get(bound) ?? 0) + value);
  }
  return counts;
}
