/** A stack that a test may break, since nobody else uses it; skipped, and said so, where none can be started. */
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { environmentIn, type StackCommands, stackCommands } from './stackCommands.ts';

export interface OwnStack {
  /** `KAFKA_BROKERS` and the others, from the first `beforeAll` on; empty where there is none. */
  readonly env: Readonly<Record<string, string>>;
  readonly commands: StackCommands;
}

const UP_WITHIN_MS = 300_000;

/** Of three brokers. Called in the body of a suite: it is up before the first test and gone after the last one. */
export function ownStack(what: string): OwnStack {
  const commands = stackCommands();
  let env: Record<string, string> = {};
  let lack: string | undefined;

  beforeAll(async () => {
    const up = await commands.run('up', '--brokers', '3');
    lack = whatIsLacking(up.stderr);
    if (lack !== undefined) console.log(`${what}: skipped: no stack of the test's own: ${lack}`);
    else if (up.code !== 0) throw new Error(up.stderr);
    else env = environmentIn(up.stdout);
  }, UP_WITHIN_MS);
  beforeEach(({ skip }) => {
    if (lack !== undefined) skip(lack);
  });
  afterAll(() => commands.remove(), UP_WITHIN_MS);
  return {
    commands,
    get env() {
      return env;
    },
  };
}

/**
 * What this machine has not got for a stack, from what `up` wrote to its standard error.
 * @throws where `QUESTLOG_REQUIRE` asks for kafka all the same.
 */
export function whatIsLacking(stderr: string): string | undefined {
  const lack = /^stack: (.*(is needed|needs Linux).*)$/m.exec(stderr)?.[1];
  const isRequired = /\bkafka\b/.test(process.env['QUESTLOG_REQUIRE'] ?? '');
  if (lack !== undefined && isRequired) throw new Error(`QUESTLOG_REQUIRE asks for kafka, but: ${lack}`);
  return lack;
}
