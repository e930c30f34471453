/** Starts the linker. The linker reads events and report links, and it writes linked events. */
import { cachedTableUuids } from '@questlog/runtime/clickhouse/restored/tableUuids';
import { openDeadLetters } from '@questlog/runtime/consumer/deadLetters';
import { checkProgress } from '@questlog/runtime/consumer/progress';
import type { Consumer } from '@questlog/runtime/log/log';
import { watchProjections } from '@questlog/runtime/log/projection/projection';
import { coalesceCalls, limitConcurrency } from '@questlog/runtime/process/waiting';
import { createCodec } from '@questlog/runtime/registry/registry';
import { eventsInBytes } from '@questlog/schemas/topics/eventsRecord';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { linkerState } from '@questlog/schemas/topics/linkerState';
import { reportLinks } from '@questlog/schemas/topics/reportLinks';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { SessionFilter } from './core/sessionFilter.ts';
import type { LinkerDeps, PartitionDeps } from './deps.ts';
import { addSessionsWithReports } from './lookUps/storedReports.ts';
import { linkPartition } from './partition.ts';
import { startRerouting } from './rerouteReports.ts';

export interface Linker {
  readonly failed: Promise<never>;
  stop(): Promise<void>;
}

export async function startLinker(deps: LinkerDeps): Promise<Linker> {
  const { log, registry, health, metrics } = deps;
  const codecs = {
    events: await createCodec(registry, eventsInBytes),
    reports: await createCodec(registry, reportLinks),
    links: await createCodec(registry, linkedEvents),
    state: await createCodec(registry, linkerState),
  };
  const deadLettersFor = await openDeadLetters({ ...deps, group: GROUPS.link });
  const topics = [TOPICS.events, TOPICS.reportLinks];
  let consumer: Consumer | undefined;
  const activityOf = (partition: number): string | undefined => consumer?.activity(partition);
  const checks = topics.map((topic) => {
    const checked = { group: GROUPS.link, topic, name: `${GROUPS.link} ${topic}`, activityOf };
    return checkProgress(deps, checked, (lag) => metrics.linkerLag.set({ topic }, lag));
  });
  const partitions = await log.partitionCount(TOPICS.events);
  const activePartitions: PartitionDeps['activePartitions'] = new Map();
  const shared = sharedDeps(deps);
  health.check(`${GROUPS.link} look-ups`, () => firstProblem(activePartitions));
  addResources(deps, activePartitions);
  consumer = await log.consume({
    group: GROUPS.link,
    topics,
    process: (owned) =>
      linkPartition(owned, { ...deps, ...shared, codecs, partitions, deadLettersFor, activePartitions }),
  });
  const rerouter = startRerouting(deps);
  const failed = Promise.race([consumer.failed, rerouter.failed]);
  // Without this handler, Node would report an unhandled rejection if the linker fails before a caller awaits `failed`.
  failed.catch(() => {});
  return {
    failed,
    stop: async () => {
      for (const end of checks) end();
      await Promise.all([consumer.stop(), rerouter.stop()]);
    },
  };
}

/** Maximum number of partitions that restore their state at the same time. More restores at once are not faster on one core. */
const MAX_CONCURRENT_RESTORES = 4;

export function sharedDeps({
  log,
  bounds,
  store,
}: LinkerDeps): Pick<PartitionDeps, 'sessions' | 'projections' | 'queueRestore'> {
  const filter = new SessionFilter(bounds.sessionsWithReports);
  const load = coalesceCalls(() => addSessionsWithReports(store, filter));
  return {
    sessions: { filter, load },
    projections: watchProjections(log, cachedTableUuids(store)),
    queueRestore: limitConcurrency(MAX_CONCURRENT_RESTORES),
  };
}

/** Adds the fill level of the fullest partition to the metrics, because each partition has its own limits. */
function addResources({ metrics, bounds }: LinkerDeps, active: PartitionDeps['activePartitions']): void {
  const most = (of: 'reports' | 'eventIds'): number =>
    Math.max(0, ...[...active.values()].map(({ open }) => open[of]));
  const { openReports, openEventIds } = bounds;
  metrics.resources.add({
    ...{ resource: 'linker_open_reports', limit: openReports },
    used: () => most('reports'),
  });
  metrics.resources.add({
    ...{ resource: 'linker_open_event_ids', limit: openEventIds },
    used: () => most('eventIds'),
  });
}

function firstProblem(activePartitions: PartitionDeps['activePartitions']): string | undefined {
  for (const partition of activePartitions.values()) {
    const problem = partition.problem();
    if (problem !== undefined) return problem;
  }
  return undefined;
}
