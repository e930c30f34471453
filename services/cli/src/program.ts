/** Defines the commands of `questlog`, their options, and their help. */
import { readFileSync } from 'node:fs';
import { SERVICES } from '@questlog/questlog/serviceNames';
import { nearestName } from '@questlog/runtime/process/nearestName';
import { Command } from 'commander';
import { backupCommand, compactCommand, restoreCommand } from './backups/backups.ts';
import { clickhouseCommand } from './clickhouse/clickhouseCommand.ts';
import { completionCommand } from './completion.ts';
import type { Connection } from './connection.ts';
import { deadLettersCommand } from './deadLetters.ts';
import { doctorCommand } from './doctor.ts';
import { erasuresCommand } from './erasures/erasures.ts';
import { exportCommand } from './exports/exportCommand.ts';
import { exportsCommand } from './exports/exportsCommand.ts';
import { example, manageCommands } from './manage.ts';
import { auditCommand } from './queries/audit.ts';
import { followCommand } from './queries/follow.ts';
import { queryCommands } from './queries/queryCommands.ts';
import { sqlCommand } from './queries/sql.ts';
import { tailCommand } from './queries/tail.ts';
import { sendCommand } from './send.ts';
import { simulateCommand } from './simulate/simulate.ts';
import { switchesCommand } from './switches/switches.ts';
import { migrateCommand, waitForConsumersCommand, waitForWritersCommand } from './upgrade/upgrade.ts';
import { verifyCommand } from './verify.ts';

const { version }: { version: string } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
);

/** Creates the command `questlog`. A command throws a `CommanderError` after a usage error and after it prints its help. */
export function questlog(connect: () => Promise<Connection>, env: NodeJS.ProcessEnv): Command {
  const program = new Command('questlog')
    .description('Telemetry for live games: starts the services, and queries and manages a running Questlog.')
    .version(version)
    .exitOverride()
    .configureHelp({ showGlobalOptions: false })
    .addHelpText(
      'after',
      `
Commands find a running Questlog with the credentials in QUESTLOG_DATA_DIR (.data). For another Questlog, set
QUESTLOG_ADMIN_URL and QUESTLOG_ADMIN_TOKEN for the operator's commands, and QUESTLOG_URL and QUESTLOG_TOKEN for
send, trail and simulate.`,
    );
  for (const service of SERVICES) {
    program
      .command(service)
      .description(
        service === 'standalone'
          ? 'run all services in one process'
          : `run the ${service} in a separate process`,
      )
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
      .description('print the settings in use, with secrets as ***, without starting a service')
      .option('--check', 'no effect: the settings are always checked'),
    'questlog config',
  ).action(async () => {
    process.argv.splice(2, Number.POSITIVE_INFINITY, '--check-config');
    await import('@questlog/questlog/main');
  });
  const commands = [
    sqlCommand(connect),
    ...queryCommands(connect),
    exportCommand(connect, env),
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
    exportsCommand(connect),
    clickhouseCommand(connect),
    backupCommand(connect),
    restoreCommand(env),
    compactCommand(env),
    migrateCommand(env),
    waitForConsumersCommand(env),
    waitForWritersCommand(env),
    completionCommand(program),
  ];
  for (const command of commands) program.addCommand(withExitOverride(command));
  return withSuggestions(program);
}

function withExitOverride(command: Command): Command {
  for (const inner of command.commands) withExitOverride(inner);
  return withSuggestions(command).exitOverride();
}

/** Suggests a synonym or a similar name in the error for an unknown subcommand. */
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
      suggestion === undefined ? `available commands: ${names.join(', ')}` : `did you mean ${suggestion}?`;
    command.error(`error: unknown command '${word}'; ${hint}`, { code: 'commander.unknownCommand' });
  });
}

const MAX_EDITS = 3;
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
