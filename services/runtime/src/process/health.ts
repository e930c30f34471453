/** Readiness as the sum of named checks; each says what is wrong, or undefined when nothing is. */

export interface Health {
  check(name: string, problem: () => string | undefined | Promise<string | undefined>): void;
  /** Name and sentence of each failing check; empty: ready. */
  problems(): Promise<Record<string, string>>;
}

export function createHealth(): Health {
  const checks = new Map<string, () => string | undefined | Promise<string | undefined>>();
  return {
    check: (name, problem) => checks.set(name, problem),
    problems: async () => {
      const found: Record<string, string> = {};
      for (const [name, problem] of checks) {
        const sentence = await problem();
        if (sentence !== undefined) found[name] = sentence;
      }
      return found;
    },
  };
}
