/** `docs/reference/commands.md`: every command, with its arguments and what it does. */
import { questlog } from '@questlog/cli/program';
import { code, list, page } from './markdown.ts';

type Command = ReturnType<typeof questlog>;

export function commandsPage(): string {
  const program = questlog(async () => {
    throw new Error('the page does not run commands');
  }, {});
  return page('Commands', 'services/cli/src', [
    'In a clone, run a command of this list with `npx questlog <command>`. `npx questlog <command> --help` lists the options of a command and shows examples.',
    'A command reads the addresses and tokens of Questlog from `QUESTLOG_ADMIN_URL`, `QUESTLOG_ADMIN_TOKEN`, `QUESTLOG_URL`, and\n`QUESTLOG_TOKEN`. Without these settings, the command reads the credentials file in `QUESTLOG_DATA_DIR`.',
    'The exit code is 0 after a success, 1 after a failure, 2 after wrong usage, and 130 after Ctrl-C. Commands write results to standard\noutput, and all other texts to standard error.',
    list(leavesOf(program).map(lineOf)),
  ]);
}

function leavesOf(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leavesOf);
}

function lineOf(command: Command): string {
  const usage = command
    .createHelp()
    .commandUsage(command)
    .replace('questlog ', '')
    .replace(' [options]', '')
    .trim();
  const description = command.description();
  return `${code(usage)}: ${description}`;
}
