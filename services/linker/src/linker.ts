/** The linker: events and report links → linked events. One member of a group; each partition is a run of its own. */
import { checkProgress } from '@questlog/runtime/consumer/progress';
import { createCodec } from '@questlog/runtime/registry/registry';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { linkedEvents } from '@questlog/schemas/topics/linkedEvents';
import { linkerState } from '@questlog/schemas/topics/linkerState';
import { reportLinks } from '@questlog/schemas/topics/reportLinks';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import type { LinkerDeps, PartitionDeps } from './deps.ts';
import { linkPartition } from './partition.ts';

export interface Linker {
  /** Rejects when the linker cannot go on: a bug. */
  readonly failed: Promise<never>;
  stop(): Promise<void>;
}

export async function startLinker(deps: LinkerDeps): Promise<Linker> {
  const { log, registry, health, metrics } = deps;
  const codecs = {
    events: await createCodec(registry, eventsAccepted),
    reports: await createCodec(registry, reportLinks),
    links: await createCodec(registry, linkedEvents),
    state: await createCodec(registry, linkerState),
  };
  const topics = [TOPICS.events, TOPICS.reportLinks];
  const checks = topics.map((topic) => {
    const checked = { group: GROUPS.link, topic, name: `${GROUPS.link} ${topic}` };
    return checkProgress(deps, checked, (lag) => metrics.linkerLag.set({ topic }, lag));
  });
  const partitions = (await log.endOffsets(TOPICS.events)).length;
  const watched: PartitionDeps['watched'] = new Map();
  health.check(`${GROUPS.link} look-ups`, () => problemsOf(watched));
  const consumer = await log.consume({
    group: GROUPS.link,
    topics,
    process: (owned) => linkPartition(owned, { ...deps, codecs, partitions, watched }),
  });
  // Its starter may look at it only later.
  consumer.failed.catch(() => {});
  return {
    failed: consumer.failed,
    stop: async () => {
      for (const end of checks) end();
      await consumer.stop();
    },
  };
}

function problemsOf(watched: PartitionDeps['watched']): string | undefined {
  for (const partition of watched.values()) {
    const problem = partition.problem();
    if (problem !== undefined) return problem;
  }
  return undefined;
}
