/** The commands `questlog migrate` and `questlog wait-for-consumers`, for upgrades on Kafka. */
import { Argument, Command } from 'commander';
import { example } from '../manage.ts';

const CONSUMERS = ['projector', 'linker'] as const;

export function migrateCommand(env: NodeJS.ProcessEnv): Command {
  const command = new Command('migrate').description(
    'create missing tables, topics, and schemas in ClickHouse, Kafka, and the registry, and exit',
  );
  return example(command, 'questlog migrate').action(async () => {
    const { upgrade, settings, logger } = await load(env);
    await upgrade.migrate(settings, logger);
    process.stdout.write('the tables, topics, and schemas exist\n');
  });
}

export function waitForConsumersCommand(env: NodeJS.ProcessEnv): Command {
  const command = new Command('wait-for-consumers')
    .description('wait until all running projectors or linkers can read the records of this version')
    .addArgument(new Argument('<service...>', 'services to wait for').choices(CONSUMERS));
  return example(command, 'questlog wait-for-consumers projector linker').action(
    async (services: (typeof CONSUMERS)[number][]) => {
      const { upgrade, settings, logger } = await load(env);
      await upgrade.waitForConsumers(services, settings, logger);
      process.stdout.write(`every ${services.join(' and every ')} reads the records of this version\n`);
    },
  );
}

async function load(env: NodeJS.ProcessEnv) {
  // As PID 1 of a container, the process would otherwise ignore the signal.
  process.once('SIGTERM', () => process.exit(TERMINATED));
  const [upgrade, { settingsOf }, { createLogger, logOptions }] = await Promise.all([
    import('@questlog/questlog/upgrade/upgrade'),
    import('../connection.ts'),
    import('@questlog/runtime/process/logger'),
  ]);
  return { upgrade, settings: await settingsOf(env), logger: createLogger('questlog', logOptions(env)) };
}

const TERMINATED = 143;
