/**
 * A stack that a test may break. Uses the stack of the run, because the fault tests run last. Starts a separate stack if the run
 * has no local stack. Skips the tests with a reason if no stack can be started.
 */
import type { Engines } from '@questlog/runtime/log/kafka/testing/engines';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { type StackCommands, type StackEngines, stackCommands, threeBrokers } from './stackCommands.ts';

export interface OwnStack {
  /** Set by the first `beforeAll`. Undefined if no stack could be started. */
  readonly engines: StackEngines | undefined;
  readonly commands: StackCommands;
}

const UP_WITHIN_MS = 300_000;

/** Creates a stack of three brokers. Call it in the body of a suite. The stack is up before each test and after the last. */
export function ownStack({ stackDir, tables }: Engines): OwnStack {
  const commands = stackCommands(stackDir);
  let own: OwnStack['engines'];
  let lack: string | undefined;

  beforeAll(async () => {
    const up = await threeBrokers(commands);
    if ('lack' in up) lack = up.lack;
    else own = { ...up, tables };
    if (lack !== undefined) console.log(`skipped: no stack of the test's own: ${lack}`);
  }, UP_WITHIN_MS);
  beforeEach(async ({ skip }) => {
    if (lack !== undefined) skip(lack);
    // A failed test may have left a broker stopped.
    await commands.do('up');
  }, UP_WITHIN_MS);
  afterAll(async () => {
    if (stackDir === undefined) await commands.remove();
    else await commands.do('up');
  }, UP_WITHIN_MS);
  return {
    commands,
    get engines() {
      return own;
    },
  };
}
