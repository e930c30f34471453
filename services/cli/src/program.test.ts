/** Tests the help of each command and the errors for wrong usage. No command connects to Questlog. */
import { SERVICES } from '@questlog/questlog/serviceNames';
import { type Command, CommanderError } from 'commander';
import { expect, test } from 'vitest';
import { questlog } from './program.ts';

const never = async () => {
  throw new Error('a usage error must not connect');
};

/** Paths of all commands. The services are omitted, because they parse their own arguments. */
const COMMANDS = every(questlog(never, {}))
  .filter(({ commands }) => commands.length === 0)
  .map((command) => pathOf(command))
  .filter(([name]) => !SERVICES.some((service) => service === name));

async function runCommand(args: readonly string[]) {
  const root = questlog(never, {});
  const output = { stdout: '', stderr: '' };
  for (const command of every(root)) {
    command.configureOutput({
      writeOut: (text) => {
        output.stdout += text;
      },
      writeErr: (text) => {
        output.stderr += text;
      },
    });
  }
  const error = await root.parseAsync(args, { from: 'user' }).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(CommanderError);
  return { ...output, exitCode: error instanceof CommanderError ? error.exitCode : 0 };
}

test('has at least 18 commands', () => {
  expect(COMMANDS.length).toBeGreaterThanOrEqual(18);
});

test.each(COMMANDS)('%s --help prints the usage and an example', async (...path) => {
  const command = path.join(' ');
  const { exitCode, stdout, stderr } = await runCommand([...path, '--help']);

  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  expect(stdout).toMatch(new RegExp(`Usage: questlog ${command}[\\s\\S]*Example:\\n {2}questlog ${command}`));
});

test.each([
  ...COMMANDS.map((path) => [[...path, '--bogus'], 'error: '] as const),
  [['tenant', 'list'], "unknown command 'tenant'; did you mean tenants?"] as const,
  [['start'], "unknown command 'start'; did you mean standalone?"] as const,
  [['ingets'], 'did you mean ingest?'] as const,
  [['nonsense'], 'available commands: standalone, ingest, '] as const,
  [['projects', 'update'], "unknown command 'update'; did you mean set?"] as const,
  [['projects', 'lsit'], 'did you mean list?'] as const,
  [['projects', 'remove'], 'available commands: list, create, set'] as const,
  [['tenants', 'edit', 'x', '--name', 'y'], 'did you mean set?'] as const,
  [['tokens', 'delete', 'x'], 'did you mean revoke?'] as const,
  [['switches', 'create', '--reject'], 'did you mean add?'] as const,
  [['switches', 'rm'], 'did you mean clear?'] as const,
  [['dead-letters', 'delete'], 'did you mean discard?'] as const,
  [['erasures', 'ls'], 'did you mean list?'] as const,
  [['tenants', 'create', '--name', 'x', '--quota', 'many'], 'it must be a whole number'] as const,
  [['simulate', '--days', '3'], '--days needs --speed max'] as const,
  [['follow', '7846b5f4-39dd-4381-b200-dbc9f59749ad'], 'the id of an event is a UUIDv7'] as const,
  [['completion', 'tcsh'], 'Allowed choices are bash, zsh, fish'] as const,
  [['tail', '--where', 'level'], 'it must be path=value'] as const,
  [['sql', '--param', '2026-11-22', 'SELECT 1'], 'it must be name=value'] as const,
  [['dead-letters', 'list', '--state', 'gone'], 'Allowed choices are open, replayed, discarded'] as const,
  [['dead-letters', 'replay'], "missing required argument 'id'"] as const,
  [['send'], 'either an event or --file is needed'] as const,
])('%j fails with an explanation', async (args, sentence) => {
  const { exitCode, stdout, stderr } = await runCommand(args);

  expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
  expect(stderr).toContain(sentence);
});

function every(command: Command): Command[] {
  return [command, ...command.commands.flatMap(every)];
}

function pathOf(command: Command): string[] {
  return command.parent === null ? [] : [...pathOf(command.parent), command.name()];
}
