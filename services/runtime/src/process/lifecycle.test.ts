/** Tests signals that a terminal, npm, or an impatient operator sends to a separate process. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, expect, test } from 'vitest';

const MODULE = new URL('lifecycle.ts', import.meta.url).href;
let child: ChildProcess | undefined;

afterEach(() => child?.kill('SIGKILL'));

test('treats two signals at once as one stop, and exits with status 0', async () => {
  const { process, output, ended } = await stoppable('await once(process.stdin, "data")');
  process.kill('SIGINT');
  process.kill('SIGTERM');
  process.kill('SIGINT');
  await output('"stopping"');
  process.stdin?.write('closed');

  expect(await ended).toEqual([0, null]);
  await output('"stopped"');
});

test('is killed by a second signal seconds after the first, without a regular exit', async () => {
  const { process, output, ended } = await stoppable('await new Promise(() => {})');
  const startedAtMs = performance.now();
  process.kill('SIGINT');
  await output('"stopping"');
  const impatience = setInterval(() => process.kill('SIGINT'), 100);
  const exit = await ended;
  clearInterval(impatience);

  expect(exit).toEqual([null, 'SIGKILL']);
  expect(performance.now() - startedAtMs).toBeGreaterThan(1_000);
});

/** Returns a process that runs this code when it stops. */
async function stoppable(closer: string) {
  const code = `
    import { once } from 'node:events';
    const { createLifecycle, stopOnSignals } = await import(${JSON.stringify(MODULE)});
    const told = (event) => console.log(JSON.stringify({ event }));
    const logger = { info: told, warn: told, error: told };
    const lifecycle = createLifecycle(logger);
    lifecycle.onStop('closer', async () => { ${closer} });
    stopOnSignals(lifecycle, logger);
    setInterval(() => {}, 1000);
    told('ready');`;
  const started = spawn(process.execPath, ['--input-type=module', '-e', code], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child = started;
  const ended = once(started, 'exit');
  let said = '';
  started.stdout.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  const output = async (text: string): Promise<void> => {
    while (!said.includes(text)) await once(started.stdout, 'data');
  };
  await output('"ready"');
  return { process: started, output, ended };
}
