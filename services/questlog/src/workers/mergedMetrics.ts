/** Merges the metrics of several processes. */

/**
 * Returns one exposition in which each family occurs once, with the series of all processes.
 * @param expositions texts in Prometheus’ format as prom-client writes them, with an empty line between families
 */
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
