#!/usr/bin/env node
/** Entry point of the command `questlog`. The exit code is 1 after a failure, 2 after a usage error, and 130 after Ctrl-C. */
import { messageOf } from '@questlog/runtime/process/errors';
import { CommanderError } from 'commander';
import { forTerminal } from './print.ts';
import { questlog } from './program.ts';

const WRONG_USE = 2;

// Exits without an error if the reader of a pipe closes the pipe, as in `questlog sql … | head`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  process.stderr.write(`questlog: cannot write to standard output: ${error.message}\n`);
  process.exit(1);
});

try {
  // Loads the connection code only if a command needs it, so that `--help` is fast.
  await questlog(
    async () => (await import('./connection.ts')).connect(process.env),
    process.env,
  ).parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : WRONG_USE;
  else {
    process.stderr.write(`questlog: ${forTerminal(messageOf(error))}\n`);
    process.exitCode = 1;
  }
}
