/** The command `questlog completion`. It prints a shell script that completes the commands and options of `questlog`. */
import { Argument, Command, type Option } from 'commander';
import { example } from './manage.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

export function completionCommand(program: Command): Command {
  const command = new Command('completion')
    .description('print a script with which a shell completes commands and options')
    .addArgument(new Argument('<shell>').choices(SHELLS));
  example(
    command,
    `questlog completion bash > ~/.local/share/bash-completion/completions/questlog
  questlog completion zsh > ~/.questlog.zsh; echo 'source ~/.questlog.zsh' >> ~/.zshrc
  questlog completion fish > ~/.config/fish/completions/questlog.fish

In a clone, the script also completes this alias: alias questlog='npx questlog'`,
  );
  return command.action((shell: Shell) => void process.stdout.write(completionScript(program, shell)));
}

export function completionScript(program: Command, shell: Shell): string {
  const levels = levelsOf(program, []);
  if (shell === 'fish') return fish(levels);
  return shell === 'bash' ? bash(levels) : `autoload -U +X bashcompinit && bashcompinit\n${bash(levels)}`;
}

/** The commands and options that can follow a command, for example after `questlog tenants create`. */
interface Level {
  readonly path: readonly string[];
  readonly commands: readonly Command[];
  readonly options: readonly Option[];
  readonly choices: readonly string[];
}

function levelsOf(command: Command, path: readonly string[]): Level[] {
  const help = command.createHelp();
  const commands = help.visibleCommands(command);
  const level: Level = {
    path,
    commands,
    options: help.visibleOptions(command),
    choices: command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
  };
  const inner = command.commands.flatMap((one) => levelsOf(one, [...path, one.name()]));
  return [level, ...inner];
}

function bash(levels: readonly Level[]): string {
  const quoted = (words: readonly string[]): string => `'${words.map((word) => ` ${word}`).join('')}'`;
  const paths = levels.filter(({ path }) => path.length > 0).map(({ path }) => quoted(path));
  const words = levels.map(({ path, commands, options, choices }) => {
    const flags = options.flatMap(({ long }) => long ?? []);
    const candidates = [...commands.map((command) => command.name()), ...choices, ...flags];
    return `    ${quoted(path)}) words='${candidates.join(' ')}' ;;\n`;
  });
  const optionsWithValue = levels.flatMap(({ path, options }) =>
    options
      .filter(({ required }) => required)
      .map(({ long, argChoices }) => ({ path: quoted([...path, long ?? '']), argChoices })),
  );
  const values = optionsWithValue
    .filter(({ argChoices }) => argChoices !== undefined)
    .map(({ path, argChoices }) => `    ${path}) words='${argChoices?.join(' ')}' ;;\n`);
  const freeValues = optionsWithValue
    .filter(({ argChoices }) => argChoices === undefined)
    .map(({ path }) => path);
  return `_questlog() {
  local at='' word words=''
  for word in "\${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    case "$at $word" in
    ${paths.join('|')}) at="$at $word" ;;
    esac
  done
  case "$at" in
${words.join('')}  esac
  case "$at \${COMP_WORDS[COMP_CWORD-1]}" in
${values.join('')}    ${freeValues.join('|')}) words='' ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _questlog questlog
`;
}

function fish(levels: readonly Level[]): string {
  const lines = levels.flatMap(({ path, commands, options, choices }) => {
    const conditions = path.map((word) => `__fish_seen_subcommand_from ${word}`);
    const names = commands.map((command) => command.name());
    const isOpen =
      path.length === 0 ? '__fish_use_subcommand' : `not __fish_seen_subcommand_from ${names.join(' ')}`;
    const here = (conditions: readonly string[]): string =>
      `complete -c questlog${conditions.length === 0 ? '' : ` -n '${conditions.join('; and ')}'`}`;
    return [
      ...commands.map((command) => {
        return `${here([...conditions, isOpen])} -f -a ${command.name()} -d ${fishText(command.description())}`;
      }),
      ...(choices.length === 0 ? [] : [`${here(conditions)} -f -a '${choices.join(' ')}'`]),
      ...options.map(({ long, required, argChoices, description }) => {
        const values = argChoices === undefined ? '' : ` -f -a '${argChoices.join(' ')}'`;
        const name = long?.slice(2) ?? '';
        return `${here(conditions)} -l ${name}${required ? ' -r' : ''}${values} -d ${fishText(description)}`;
      }),
    ];
  });
  return `${lines.join('\n')}\n`;
}

function fishText(text: string): string {
  return `'${text.replace(/['\\]/g, '\\$&')}'`;
}
