/** The commands of `questlog`, their options and their help. */
import { readFileSync } from 'node:fs';
import { SERVICES } from '@questlog/questlog/serviceNames';
import { nearestName } from '@questlog/runtime/process/nearestName';
import { Command } from 'commander';
import { backupCommand, compactCommand, restoreCommand } from './backups/backups.ts';
import { completionCommand } from './completion.ts';
import type { Connection } from './connection.ts';
import { deadLettersCommand } from './deadLetters.ts';
import { doctorCommand } from './doctor.ts';
import { erasuresCommand } from './erasures/erasures.ts';
import { example, manageCommands } from './manage.ts';
import { auditCommand } from './queries/audit.ts';
import { followCommand } from './queries/follow.ts';
import { queryCommands } from './queries/queryCommands.ts';
import { sqlCommand } from './queries/sql.ts';
import { tailCommand } from './queries/tail.ts';
import { sendCommand } from './send.ts';
import { simulateCommand } from './simulate/simulate.ts';
import { switchesCommand } from './switches/switches.ts';
import { verifyCommand } from './verify.ts';

const { version }: { version: string } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
);

/** Its commands throw where they are used wrongly, and once they have shown their help. */
export function questlog(connect: () => Promise<Connection>, env: NodeJS.ProcessEnv): Command {
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
        await import('@questlog/questlog/main');
      });
  }
  example(
    program
      .command('config')
      .description('print the settings in use, secrets as ***, and start nothing')
      .option('--check', 'the same'),
    'questlog config',
  ).action(async () => {
    process.argv.splice(2, Number.POSITIVE_INFINITY, '--check-config');
    await import('@questlog/questlog/main');
  });
  const commands = [
    sqlCommand(connect),
    ...queryCommands(connect),
    tailCommand(connect),
    followCommand(connect),
    sendCommand(connect),
    simulateCommand(connect),
    ...manageCommands(connect),
    switchesCommand(connect),
    doctorCommand(version, env),
    verifyCommand(connect),
    deadLettersCommand(connect),
    auditCommand(connect),
    erasuresCommand(connect),
    backupCommand(connect),
    restoreCommand(env),
    compactCommand(env),
    completionCommand(program),
  ];
  for (const command of commands) program.addCommand(withExitOverride(command));
  return withSuggestions(program);
}

/**
 * Applies to all subcommands, because commands that are added with `addCommand` do not inherit these settings from the
 * program.
 */
function withExitOverride(command: Command): Command {
  for (const inner of command.commands) withExitOverride(inner);
  return withSuggestions(command).exitOverride();
}

/** Adds an error for unknown subcommands that suggests a synonym or, if there is none, a similar name. */
function withSuggestions(command: Command): Command {
  if (command.commands.length === 0) return command;
  return command.on('command:*', ([word = '']: string[]) => {
    const names = command
      .createHelp()
      .visibleCommands(command)
      .map((each) => each.name());
    const synonyms = SYNONYMS.find((words) => words.includes(word)) ?? [];
    const suggestion = names.find((name) => synonyms.includes(name)) ?? nearestName(word, names, MAX_EDITS);
    const hint =
      suggestion === undefined ? `it is one of ${names.join(', ')}` : `did you mean ${suggestion}?`;
    command.error(`error: unknown command '${word}'; ${hint}`, { code: 'commander.unknownCommand' });
  });
}

/** Maximum edits between a wrong word and the name that is suggested. */
const MAX_EDITS = 3;
/** Words that other programs use for the same action. */
const SYNONYMS: readonly (readonly string[])[] = [
  ['list', 'ls', 'all', 'index'],
  ['show', 'get', 'describe', 'inspect', 'view'],
  ['create', 'add', 'new', 'make', 'insert'],
  ['set', 'update', 'change', 'edit', 'modify', 'patch', 'alter'],
  ['revoke', 'discard', 'clear', 'delete', 'remove', 'rm', 'del', 'drop', 'lift'],
  ['rotate', 'renew', 'refresh'],
  ['replay', 'retry', 'resend'],
  ['standalone', 'start', 'run', 'serve', 'server', 'up'],
  ['sql', 'query', 'select', 'ask'],
  ['tail', 'logs', 'watch'],
];
