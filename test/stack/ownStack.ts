/**
 * A stack that a test may break: the run's own, since the tier of faults runs behind all others, or, where the run's
 * engines are not a local stack, one of the test's own. Skipped, with the reason, where none can be started.
 */
import type { Engines } from '@questlog/runtime/log/kafka/testing/engines';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { environmentIn, type StackCommands, stackCommands } from './stackCommands.ts';

export interface OwnStack {
  /** From the first `beforeAll` on; undefined where there is none. */
  readonly engines: Pick<Engines, 'brokers' | 'registryUrl' | 'clickhouseUrl'> | undefined;
  readonly commands: StackCommands;
}

const UP_WITHIN_MS = 300_000;

/** A stack of three brokers. Call it in the body of a suite: it is up before the first test, and again after the last one. */
export function ownStack({ stackDir }: Engines): OwnStack {
  const commands = stackCommands(stackDir);
  let own: OwnStack['engines'];
  let lack: string | undefined;

  beforeAll(async () => {
    const up = await commands.run('up', '--brokers', '3');
    lack = whatIsLacking(up.stderr);
    if (lack !== undefined) return console.log(`skipped: no stack of the test's own: ${lack}`);
    if (up.code !== 0) throw new Error(up.stderr);
    const env = environmentIn(up.stdout);
    own = {
      brokers: env['KAFKA_BROKERS'] ?? '',
      registryUrl: env['SCHEMA_REGISTRY_URL'] ?? '',
      clickhouseUrl: env['CLICKHOUSE_URL'] ?? '',
    };
  }, UP_WITHIN_MS);
  beforeEach(({ skip }) => {
    if (lack !== undefined) skip(lack);
  });
  afterAll(async () => {
    if (stackDir === undefined) await commands.remove();
    else await commands.do('up');
  }, UP_WITHIN_MS);
  return {
    commands,
    get engines() {
      return own;
    },
  };
}

/**
 * Names what this machine lacks for a stack, from the standard error of `up`.
 * @throws where `QUESTLOG_REQUIRE` asks for kafka all the same.
 */
export function whatIsLacking(stderr: string): string | undefined {
  const lack = /^stack: (.*(is needed|needs Linux).*)$/m.exec(stderr)?.[1];
  const isRequired = /\bkafka\b/.test(process.env['QUESTLOG_REQUIRE'] ?? '');
  if (lack !== undefined && isRequired) throw new Error(`QUESTLOG_REQUIRE asks for kafka, but: ${lack}`);
  return lack;
}
