#!/usr/bin/env node
/** Entry point of the command `questlog`. Exit codes: 0 done, 1 failed, 2 wrong use, 130 stopped by Ctrl-C. */
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
  // Loads the connection code only when a command needs it, so that help is printed at once.
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
