/**
 * A process that starts engines, tells their addresses in one line of JSON, and stops them when its input ends. That
 * also happens when the tests are interrupted or killed, in which case they cannot stop anything themselves.
 */
import { once } from 'node:events';
import { PARTS } from './choice.ts';
import { startDockerEngines } from './dockerEngines.ts';
import { startLocalEngines } from './localEngines.ts';

const [provider, ...names] = process.argv.slice(2);
const parts = PARTS.filter((part) => names.includes(part));

// Nobody may be there any more to read what is said; the engines are to be stopped all the same.
for (const output of [process.stdout, process.stderr]) output.on('error', () => {});
process.stdin.resume();
const ended = once(process.stdin, 'close');

try {
  const { stop, ...told } = await (provider === 'docker' ? startDockerEngines : startLocalEngines)(parts);
  process.stdout.write(`${JSON.stringify(told)}\n`);
  await ended;
  await stop();
} catch (error) {
  process.stderr.write(`kafka tests: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
// The connections to Docker would keep it up.
process.exit();
