/** Starts a separate process that runs the engines until this process stops them or exits. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Part, Provider } from './choice.ts';
import type { StartedEngines } from './startedEngines.ts';

const KEEPER = fileURLToPath(new URL('./keeper.ts', import.meta.url));

/** @throws Error if the engines do not start. The reason is on standard error. */
export async function keepEngines(provider: Provider, parts: readonly Part[]): Promise<StartedEngines> {
  // Uses another process group, because Ctrl+C must not reach the keeper.
  const keeper = spawn(process.execPath, [KEEPER, provider, ...parts], {
    detached: true,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(keeper, 'exit');
  const { value: line } = await createInterface(keeper.stdout)[Symbol.asyncIterator]().next();
  if (line === undefined) throw new Error('the engines of the kafka tests did not start');
  const stop = async (): Promise<void> => {
    keeper.stdin.end();
    await ended;
  };
  return { ...JSON.parse(line), stop };
}
