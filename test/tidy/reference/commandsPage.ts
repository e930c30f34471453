/** `docs/reference/commands.md`: every command, its options and an example. */
import { questlog } from '@questlog/cli/program';
import { code, fence, page } from './markdown.ts';

type Command = ReturnType<typeof questlog>;

export function commandsPage(): string {
  const program = questlog(async () => {
    throw new Error('a page reaches nobody');
  }, {});
  return page('Commands', 'services/cli/src', [
    'In a clone: `npx questlog <command>`. The settings `QUESTLOG_ADMIN_URL`, `QUESTLOG_ADMIN_TOKEN`, `QUESTLOG_URL` and\n`QUESTLOG_TOKEN` lead to another machine’s Questlog; without them the credentials in `QUESTLOG_DATA_DIR` do. Where\nsomething is wrong, begin with `questlog doctor`.',
    'Exit codes: 0 done, 1 failed, 2 wrong use, 130 ended by Ctrl-C. Answers go to standard output, all else to standard error.',
    ...leavesOf(program).flatMap(blocksOf),
  ]);
}

function leavesOf(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leavesOf);
}

function blocksOf(command: Command): string[] {
  const help = command.createHelp();
  const names = help.commandUsage(command).replace(' [options]', '').trim();
  const options = help
    .visibleOptions(command)
    .filter(({ long }) => long !== '--help')
    .map((option) => `- ${code(option.flags)}: ${help.optionDescription(option)}`);
  const description = command.description();
  const example = exampleOf(command);
  return [
    `## ${code(names)}`,
    `${description.charAt(0).toUpperCase()}${description.slice(1)}.`,
    ...(options.length === 0 ? [] : [options.join('\n')]),
    ...(example === '' ? [] : [fence('sh', example)]),
  ];
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
