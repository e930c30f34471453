/** Has a process of its own start engines and keep them until this one is done with them, or is gone. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Part, Provider } from './choice.ts';
import type { StartedEngines } from './startedEngines.ts';

const KEEPER = fileURLToPath(new URL('./keeper.ts', import.meta.url));

/** @throws when they do not start; why is on standard error by then. */
export async function keepEngines(provider: Provider, parts: readonly Part[]): Promise<StartedEngines> {
  // Ctrl+C reaches the process group of the tests, which must not be the keeper's.
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
