/** Merges the metrics of several processes. */

/** Returns one metrics exposition in which each metric family occurs only once. */
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
