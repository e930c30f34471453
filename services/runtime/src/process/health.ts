/** Readiness as the sum of named checks; each says what is wrong, or undefined when nothing is. */
import { messageOf } from './errors.ts';

type Check = () => string | undefined | Promise<string | undefined>;

export interface Health {
  /** What makes this process not ready. */
  check(name: string, problem: Check): void;
  /** What is told, and leaves the process ready: it goes on with what it can, and all of its like have it at once. */
  warn(name: string, problem: Check): void;
  /** Name and sentence of each that says something, within a few seconds. No problems: ready. */
  state(): Promise<{ readonly problems: Sentences; readonly warnings: Sentences }>;
}

export type Sentences = Readonly<Record<string, string>>;

/** Who asks for readiness waits for a few seconds only; an outage may hold a check for longer. */
const CHECK_LIMIT_MS = 3_000;

export function createHealth(): Health {
  const checks = new Map<string, Check>();
  const warnings = new Map<string, Check>();
  return {
    check: (name, problem) => checks.set(name, problem),
    warn: (name, problem) => warnings.set(name, problem),
    state: async () => {
      const [problems, warned] = await Promise.all([sentencesOf(checks), sentencesOf(warnings)]);
      return { problems, warnings: warned };
    },
  };
}

async function sentencesOf(checks: ReadonlyMap<string, Check>): Promise<Sentences> {
  const said = await Promise.all(
    [...checks].map(async ([name, check]) => {
      const sentence = await withinLimit(check).catch(messageOf);
      return sentence === undefined ? [] : [[name, sentence] as const];
    }),
  );
  return Object.fromEntries(said.flat());
}

async function withinLimit(check: Check): Promise<string | undefined> {
  const late = Promise.withResolvers<string>();
  const timer = setTimeout(
    () => late.resolve(`no answer within ${CHECK_LIMIT_MS / 1_000} s`),
    CHECK_LIMIT_MS,
  );
  try {
    return await Promise.race([(async () => check())(), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
