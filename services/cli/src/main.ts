#!/usr/bin/env node
/** `questlog <command>`: the services, and what people ask of a running Questlog. Exit codes: 0 done, 1 failed, 2 wrong use. */
import { readFileSync } from 'node:fs';
import { messageOf } from '@questlog/runtime/process/errors';
import { SERVICES } from '@questlog/standalone/serviceNames';
import { Command, CommanderError } from 'commander';
import { askCommands } from './ask.ts';
import { example, manageCommands } from './manage.ts';
import type { Reach } from './reach.ts';
import { sendCommand } from './send.ts';
import { simulateCommand } from './simulate/simulate.ts';

const WRONG_USE = 2;

// `questlog sql … | head` has read enough.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
});

const { version }: { version: string } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
);
/** Loaded once it is needed: help comes at once. */
const at = async (): Promise<Reach> => (await import('./reach.ts')).reach(process.env);

const program = new Command('questlog')
  .description('Telemetry for live games: starts the services, and asks and manages a running Questlog.')
  .version(version)
  .exitOverride()
  .configureHelp({ showGlobalOptions: false })
  .addHelpText(
    'after',
    `
A running Questlog is found by the credentials in QUESTLOG_DATA_DIR (.data), or by QUESTLOG_ADMIN_URL and
QUESTLOG_ADMIN_TOKEN for operators' commands, and by QUESTLOG_URL and QUESTLOG_TOKEN for a game's.`,
  );
for (const service of SERVICES) {
  program
    .command(service)
    .description(service === 'standalone' ? 'run all services in one process' : `run ${service} alone`)
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async () => {
      await import('@questlog/standalone/main');
    });
}
example(
  program
    .command('config')
    .description('print the settings in use, secrets as ***')
    .requiredOption('--check', 'start nothing'),
  'questlog config --check',
).action(async () => {
  process.argv.splice(2, Number.POSITIVE_INFINITY, '--check-config');
  await import('@questlog/standalone/main');
});
for (const command of [...askCommands(at), sendCommand(at), simulateCommand(at), ...manageCommands(at)]) {
  program.addCommand(withExitOverride(command));
}

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : WRONG_USE;
  else {
    process.stderr.write(`questlog: ${messageOf(error)}\n`);
    process.exitCode = 1;
  }
}

/** Commands that are made elsewhere throw, as their program does, instead of ending the process. */
function withExitOverride(command: Command): Command {
  for (const inner of command.commands) withExitOverride(inner);
  return command.exitOverride();
}
