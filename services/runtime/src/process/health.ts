/** Readiness of a process, computed from named checks. A check returns a message if there is a problem. */
import { messageOf } from './errors.ts';
import { withinLimit } from './waiting.ts';

type Check = () => string | undefined | Promise<string | undefined>;

export interface Health {
  /** Registers a check. The process is not ready while the check reports a problem. */
  check(name: string, problem: Check): void;
  /** Registers a check whose problems are shown but never make the process unready. */
  warn(name: string, problem: Check): void;
  /** Runs all checks and returns their messages by name. The process is ready if `problems` is empty. */
  state(): Promise<{ readonly problems: CheckMessages; readonly warnings: CheckMessages }>;
}

export type CheckMessages = Readonly<Record<string, string>>;

/** Time limit of a check. Clients of `/readyz` wait only a few seconds, and an outage can delay a check. */
const CHECK_LIMIT_MS = 3_000;
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
