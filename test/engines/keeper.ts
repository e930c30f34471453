/**
 * A process that starts engines, prints their addresses as one line of JSON, and stops the engines when its input ends. The
 * input also ends when the tests are interrupted or killed.
 */
import { once } from 'node:events';
import { PARTS } from './choice.ts';
import { startDockerEngines } from './dockerEngines.ts';
import { startLocalEngines } from './localEngines.ts';

const [provider, ...names] = process.argv.slice(2);
const parts = PARTS.filter((part) => names.includes(part));

// Ignores failed writes, because the engines must be stopped even if the reader has exited.
for (const output of [process.stdout, process.stderr]) output.on('error', () => {});
process.stdin.resume();
const ended = once(process.stdin, 'close');

try {
  const { stop, ...started } = await (provider === 'docker' ? startDockerEngines : startLocalEngines)(parts);
  process.stdout.write(`${JSON.stringify(started)}\n`);
  await ended;
  await stop();
} catch (error) {
  process.stderr.write(`kafka tests: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
// Open connections to Docker would keep the process running.
process.exit();
