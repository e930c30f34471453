/**
 * Steps of upgrades and rollbacks with Kafka: `migrate`, `wait-for-consumers`, and `wait-for-writers`. The steps run before the
 * processes of the other version start.
 */
import { waitForMembers } from '@questlog/runtime/log/kafka/group/waitForMembers';
import { createLifecycle } from '@questlog/runtime/process/lifecycle';
import type { Logger } from '@questlog/runtime/process/logger';
import { auditEntry } from '@questlog/schemas/topics/auditEntry';
import { deadLetter } from '@questlog/schemas/topics/deadLetter';
import { directoryEntry } from '@questlog/schemas/topics/directoryEntry';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { linkerState } from '@questlog/schemas/topics/linkerState';
import { reportLinks } from '@questlog/schemas/topics/reportLinks';
import { sessionRegistered } from '@questlog/schemas/topics/sessionRegistered';
import { GROUPS, RECORDS_VERSION, WRITERS_GROUP } from '@questlog/schemas/topics/topics';
import { checkedOptions, type Settings } from '../config.ts';
import { openEngines } from '../engines/engines.ts';

const CONTRACTS = [
  eventsAccepted,
  sessionRegistered,
  reportLinks,
  linkedEvents,
  linkerState,
  directoryEntry,
  auditEntry,
  deadLetter,
] as const;

/**
 * Creates the tables, topics, and schemas of this version if they are missing, and ends.
 * @throws StartRefused if an engine is not supported or has settings that do not match.
 * @throws Unavailable if an engine does not answer.
 */
export async function migrate(settings: Settings, logger: Logger): Promise<void> {
  const options = checkedOptions(settings, false);
  const lifecycle = createLifecycle(logger);
  try {
    const { engines } = await openEngines({ settings, options, embedded: undefined, logger, lifecycle });
    const { registry } = await engines;
    for (const { subject, schema, compatibility } of CONTRACTS) {
      await registry.register(subject, schema, compatibility);
    }
  } finally {
    await lifecycle.stop();
  }
}

/** Consumer services, with the groups that each service joins. */
export const CONSUMERS = {
  projector: Object.values(GROUPS).filter((group) => group !== GROUPS.link),
  linker: [GROUPS.link],
} as const;
/** Services that write records for consumers, with the groups that each service joins. */
export const WRITERS = {
  ingest: [WRITERS_GROUP],
  operations: [WRITERS_GROUP],
  linker: [GROUPS.link],
} as const;

/** Waits until all running processes of the services have a version that can read the records of this version. */
export async function waitForConsumers(
  services: readonly (keyof typeof CONSUMERS)[],
  settings: Settings,
  logger: Logger,
): Promise<void> {
  const groups = services.flatMap((service) => CONSUMERS[service]);
  await waitForMembers({ ...membersOf(groups, settings), kind: 'consumers', logger });
}

/** Waits until all running processes of the services have a version whose records this version can read. */
export async function waitForWriters(
  services: readonly (keyof typeof WRITERS)[],
  settings: Settings,
  logger: Logger,
): Promise<void> {
  const groups = services.flatMap((service) => WRITERS[service]);
  await waitForMembers({ ...membersOf(groups, settings), kind: 'writers', logger });
}

function membersOf(groups: readonly string[], settings: Settings) {
  const { kafka: connection } = checkedOptions(settings, false);
  if (connection === undefined) throw new Error('the options of a service on Kafka lack a connection');
  const names = [...new Set(groups)].map((group) => settings.prefix + group);
  return { connection, groups: names, recordsVersion: RECORDS_VERSION };
}
