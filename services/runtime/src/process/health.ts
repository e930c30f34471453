/** Readiness as the sum of named checks; each says what is wrong, or undefined when nothing is. */
import { messageOf } from './errors.ts';
import { withinLimit } from './waiting.ts';

type Check = () => string | undefined | Promise<string | undefined>;

export interface Health {
  /** Problems that make this process not ready. */
  check(name: string, problem: Check): void;
  /** Warnings leave the process ready: it goes on with what it can, and all processes of its kind have them at once. */
  warn(name: string, problem: Check): void;
  /** Name and sentence of each that says something, within a few seconds. No problems: ready. */
  state(): Promise<{ readonly problems: CheckMessages; readonly warnings: CheckMessages }>;
}

export type CheckMessages = Readonly<Record<string, string>>;

/** A caller of readiness waits a few seconds only; an outage may hold a check for longer. */
const CHECK_LIMIT_MS = 3_000;
/** Kubernetes asks for a second only, and what leaves the process ready must not make it fail for being late. */
const WARNING_LIMIT_MS = 500;

export function createHealth(): Health {
  const checks = new Map<string, Check>();
  const warnings = new Map<string, Check>();
  return {
    check: (name, problem) => checks.set(name, problem),
    warn: (name, problem) => warnings.set(name, problem),
    state: async () => {
      const [problems, warned] = await Promise.all([
        messagesFrom(checks, CHECK_LIMIT_MS),
        messagesFrom(warnings, WARNING_LIMIT_MS),
      ]);
      return { problems, warnings: warned };
    },
  };
}

async function messagesFrom(checks: ReadonlyMap<string, Check>, limitMs: number): Promise<CheckMessages> {
  const messages = await Promise.all(
    [...checks].map(async ([name, check]) => {
      const timeoutMessage = () => `no answer within ${limitMs / 1_000} s`;
      const sentence = await withinLimit((async () => check())(), limitMs, timeoutMessage).catch(messageOf);
      return sentence === undefined ? [] : [[name, sentence] as const];
    }),
  );
  return Object.fromEntries(messages.flat());
}
