/** The commands `questlog migrate`, `wait-for-consumers`, and `wait-for-writers`, for upgrades and rollbacks on Kafka. */
import { Argument, Command } from 'commander';
import { example } from '../manage.ts';

const CONSUMERS = ['projector', 'linker'] as const;
const WRITERS = ['ingest', 'operations', 'linker'] as const;

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

export function waitForWritersCommand(env: NodeJS.ProcessEnv): Command {
  const command = new Command('wait-for-writers')
    .description('wait until no running process of the services writes records of a newer version')
    .addArgument(new Argument('<service...>', 'services to wait for').choices(WRITERS));
  return example(command, 'questlog wait-for-writers ingest operations').action(
    async (services: (typeof WRITERS)[number][]) => {
      const { upgrade, settings, logger } = await load(env);
      await upgrade.waitForWriters(services, settings, logger);
      process.stdout.write(`this version reads the records of every ${services.join(' and every ')}\n`);
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
