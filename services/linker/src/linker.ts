/** The linker: events and report links → linked events. One member of a group; each partition is a run of its own. */
import { watchProgress } from '@questlog/runtime/consumer/progress';
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

const WATCH_EVERY_MS = 5_000;

export async function startLinker(deps: LinkerDeps): Promise<Linker> {
  const { log, registry, clock, health, metrics } = deps;
  const codecs = {
    events: await createCodec(registry, eventsAccepted),
    reports: await createCodec(registry, reportLinks),
    links: await createCodec(registry, linkedEvents),
    state: await createCodec(registry, linkerState),
  };
  const topics = [TOPICS.events, TOPICS.reportLinks];
  const watches = topics.map((topic) => {
    const progress = watchProgress({ log, clock, group: GROUPS.link, topic });
    const watch = async (): Promise<string | undefined> => {
      metrics.linkerLag.set({ topic }, await progress.lag());
      return await progress.problem();
    };
    health.check(`${GROUPS.link} ${topic}`, watch);
    return watch;
  });
  // Unasked too: whoever asks for the first time must hear of a partition that has been stuck since long before.
  const watching = setInterval(() => {
    for (const watch of watches) void watch().catch(() => {});
  }, WATCH_EVERY_MS);
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
      clearInterval(watching);
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
