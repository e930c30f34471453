/** Expositions of several processes as one: each family once, with the series of all. */

/** @param expositions in Prometheus’ text format as prom-client writes it: families with an empty line between them. */
export function mergedMetrics(expositions: readonly string[]): string {
  const families = new Map<string, string[]>();
  for (const family of expositions.flatMap((text) => text.trimEnd().split('\n\n'))) {
    const [help, type, ...series] = family.split('\n');
    const head = `${help}\n${type}`;
    const known = families.get(head);
    if (known === undefined) families.set(head, series);
    else known.push(...series);
  }
  return `${[...families].map(([head, series]) => [head, ...series].join('\n')).join('\n\n')}\n`;
}
