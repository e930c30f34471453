/** `docs/reference/commands.md`: every command, its options and an example. */
import { questlog } from '@questlog/cli/program';
import { code, fence, page, table } from './markdown.ts';

type Command = ReturnType<typeof questlog>;

export function commandsPage(): string {
  const explained = new Set<string>();
  const program = questlog(async () => {
    throw new Error('a page reaches nobody');
  }, {});
  return page('Commands', 'services/cli/src', [
    'In a clone, run `npx questlog <command>`. A command reads the addresses and tokens of Questlog from `QUESTLOG_ADMIN_URL`,\n`QUESTLOG_ADMIN_TOKEN`, `QUESTLOG_URL`, and `QUESTLOG_TOKEN`. Without these settings, the command reads the credentials file in\n`QUESTLOG_DATA_DIR`. `questlog doctor` finds problems.',
    'The exit code is 0 after a success, 1 after a failure, 2 after wrong usage, and 130 after Ctrl-C. Commands write results to standard\noutput, and all other texts to standard error. `--help` shows examples of a command.',
    ...leavesOf(program).flatMap((command) => blocksOf(command, explained)),
  ]);
}

function leavesOf(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leavesOf);
}

/** @param explained the options that were explained; grows. */
function blocksOf(command: Command, explained: Set<string>): string[] {
  const help = command.createHelp();
  const names = help.commandUsage(command).replace(' [options]', '').trim();
  const rows: string[][] = [];
  const others: string[] = [];
  for (const option of help.visibleOptions(command).filter(({ long }) => long !== '--help')) {
    const meaning = help.optionDescription(option);
    const key = `${option.flags} ${meaning}`;
    if (explained.has(key)) others.push(code(option.flags));
    else rows.push([code(option.flags), meaning]);
    explained.add(key);
  }
  if (others.length > 0) rows.push([others.join(', '), 'see above']);
  const description = command.description();
  const example = exampleOf(command);
  return [
    `## ${code(names)}`,
    `${description.charAt(0).toUpperCase()}${description.slice(1)}.`,
    ...(rows.length === 0 ? [] : [table(['option', 'meaning'], rows)]),
    ...(isObvious(example) ? [] : [fence('sh', example)]),
  ];
}

/** True if an example is one line that only fills in the options, as `--help` shows it. */
function isObvious(example: string): boolean {
  return example === '' || !example.includes('\n');
}

function exampleOf(command: Command): string {
  let text = '';
  command.configureOutput({
    writeOut: (more) => {
      text += more;
    },
  });
  command.outputHelp();
  const [, example = ''] = /\nExample:\n([\s\S]*?)(\n\n|\n?$)/.exec(text) ?? [];
  return example.replace(/^ {2}/gm, '');
}
