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
    'In a clone, run `npx questlog <command>`. Commands use the Questlog whose credentials are in `QUESTLOG_DATA_DIR`, or the one in\n`QUESTLOG_ADMIN_URL`, `QUESTLOG_ADMIN_TOKEN`, `QUESTLOG_URL`, and `QUESTLOG_TOKEN`. If something is wrong, start with `questlog doctor`.',
    'Exit codes: 0 success, 1 failure, 2 wrong usage, 130 stopped by Ctrl-C. Results go to standard output, everything else to standard error.\nAn option is explained where it first appears; `--help` has more examples.',
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
  const description = command.description();
  const example = exampleOf(command);
  return [
    `## ${code(names)}`,
    `${description.charAt(0).toUpperCase()}${description.slice(1)}.`,
    ...(rows.length === 0 ? [] : [table(['option', 'meaning'], rows)]),
    ...(others.length === 0 ? [] : [`Options explained above: ${others.join(', ')}.`]),
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
