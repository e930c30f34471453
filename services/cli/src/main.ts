#!/usr/bin/env node
/** `questlog <command>`: the services, and what people ask of a running Questlog. Exit codes: 0 done, 1 failed, 2 wrong use. */
import { messageOf } from '@questlog/runtime/process/errors';
import { CommanderError } from 'commander';
import { forTerminal } from './print.ts';
import { questlog } from './program.ts';

const WRONG_USE = 2;

// `questlog sql … | head` has read enough.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  process.stderr.write(`questlog: standard output cannot be written: ${error.message}\n`);
  process.exit(1);
});

try {
  // What reaches a running one is loaded once it is needed: help comes at once.
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
