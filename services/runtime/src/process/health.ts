/** Readiness, computed from named checks. Each check returns a message if there is a problem, otherwise undefined. */
import { messageOf } from './errors.ts';
import { withinLimit } from './waiting.ts';

type Check = () => string | undefined | Promise<string | undefined>;

export interface Health {
  /** Registers a check whose problem makes this process not ready. */
  check(name: string, problem: Check): void;
  /** Registers a check whose problem leaves the process ready, usually because it concerns all processes of a kind. */
  warn(name: string, problem: Check): void;
  /** Returns the messages by name within a few seconds. The process is ready if there are no problems. */
  state(): Promise<{ readonly problems: CheckMessages; readonly warnings: CheckMessages }>;
}

export type CheckMessages = Readonly<Record<string, string>>;

/** Clients of `/readyz` wait only a few seconds, and an outage can delay a check for longer. */
const CHECK_LIMIT_MS = 3_000;
/** Kubernetes waits only a second by default. A slow warning must not make the process fail. */
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
