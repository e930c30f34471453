/**
 * A stack that a test may break: the run's own, since the tier of faults runs behind all others, or, where the run's
 * engines are not a local stack, one of the test's own. Skipped, with the reason, where none can be started.
 */
import type { Engines } from '@questlog/runtime/log/kafka/testing/engines';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { type StackCommands, type StackEngines, stackCommands, threeBrokers } from './stackCommands.ts';

export interface OwnStack {
  /** From the first `beforeAll` on; undefined where there is none. */
  readonly engines: StackEngines | undefined;
  readonly commands: StackCommands;
}

const UP_WITHIN_MS = 300_000;

/** A stack of three brokers. Call it in the body of a suite: it is up before each test, and after the last one. */
export function ownStack({ stackDir }: Engines): OwnStack {
  const commands = stackCommands(stackDir);
  let own: OwnStack['engines'];
  let lack: string | undefined;

  beforeAll(async () => {
    const up = await threeBrokers(commands);
    if ('lack' in up) lack = up.lack;
    else own = up;
    if (lack !== undefined) console.log(`skipped: no stack of the test's own: ${lack}`);
  }, UP_WITHIN_MS);
  beforeEach(async ({ skip }) => {
    if (lack !== undefined) skip(lack);
    // One that failed may have left a broker dead.
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
