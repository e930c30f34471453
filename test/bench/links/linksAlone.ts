/**
 * Measures the linker as a separate process: events and reports are in the log and projected, then the linker starts and
 * processes them. Prints one line of JSON. Fails if the links differ from the expected links.
 */
import { createCodec } from '@questlog/runtime/registry/registry';
import { partitionOf } from '@questlog/schemas/partition';
import { eventsAccepted } from '@questlog/schemas/topics/eventsAccepted';
import { linkerState } from '@questlog/schemas/topics/linkerState';
import { reportLinks } from '@questlog/schemas/topics/reportLinks';
import { GROUPS, TOPICS } from '@questlog/schemas/topics/topics';
import { eventually } from '../../e2e/builders.ts';
import { memoryOf } from '../processFigures.ts';
import { areConsumed, type LinksHouse, openLinksHouse, PARTITIONS } from './linksHouse.ts';
import { type LinksWorkload, linksWorkload } from './linksWorkload.ts';

export interface AloneFigures {
  readonly links: number;
  readonly wallS: number;
  /** CPU of the process: linker, projector of the links, and ClickHouse. */
  readonly cpuS: number;
  /** Part of the event loop; the remaining CPU is used by threads of ClickHouse and the log. */
  readonly eventLoopS: number;
  readonly lookUps: readonly { readonly kind: string; readonly count: number; readonly totalS: number }[];
  readonly peakBytes: number;
}

const LINKED = [
  [GROUPS.link, TOPICS.events],
  [GROUPS.link, TOPICS.reportLinks],
] as const;
const PROJECTED = [
  [GROUPS.projectEvents, TOPICS.events],
  [GROUPS.projectReports, TOPICS.reportLinks],
] as const;
const PROJECTED_LINKS = [[GROUPS.projectLinks, TOPICS.linkedEvents]] as const;
const WITHIN_MS = 300_000;
const AT_ONCE = 50;
const [events = 0, reports = 0] = process.argv.slice(2).map(Number);

const house = await openLinksHouse();
try {
  const workload = linksWorkload(events, reports, Date.now());
  await fill(house, workload);
  await house.startProjector();
  await eventually(() => areConsumed(house.log, PROJECTED), Boolean, WITHIN_MS);
  const figures = await measure(house, workload);
  await verify(house, workload);
  process.stdout.write(`${JSON.stringify(figures)}\n`);
} finally {
  await house.close();
}

async function fill({ log, registry }: LinksHouse, workload: LinksWorkload): Promise<void> {
  const [ofEvents, ofReports] = [
    await createCodec(registry, eventsAccepted),
    await createCodec(registry, reportLinks),
  ];
  for (const { lane, message } of workload.records) {
    const partition = partitionOf(message.tenantId, lane, PARTITIONS);
    await log.append(TOPICS.events, partition, [{ key: message.tenantId, value: ofEvents.encode(message) }]);
  }
  for (let at = 0; at < workload.reports.length; at += AT_ONCE) {
    await Promise.all(
      workload.reports.slice(at, at + AT_ONCE).map((report) => {
        const partition = partitionOf(report.tenantId, 0, PARTITIONS);
        return log.append(TOPICS.reportLinks, partition, [
          { key: report.tenantId, value: ofReports.encode(report) },
        ]);
      }),
    );
  }
}

async function measure(house: LinksHouse, { expected }: LinksWorkload): Promise<AloneFigures> {
  const { log, metrics } = house;
  const wanted = expected.session + expected.named;
  const [startedAtMs, cpu, eventLoop] = [performance.now(), process.cpuUsage(), process.threadCpuUsage()];
  await house.startLinker();
  for (;;) {
    await eventually(
      async () => ((await areConsumed(log, LINKED)) ? await linksMade(house) : -1),
      (links) => links >= wanted,
      WITHIN_MS,
    );
    const [wallS, cpuS, eventLoopS] = [
      (performance.now() - startedAtMs) / 1000,
      secondsOf(process.cpuUsage(cpu)),
      secondsOf(process.threadCpuUsage(eventLoop)),
    ];
    // All links exist, but the last reports may still be looked up.
    if ((await reportsToAsk(house)) > 0) continue;
    const lookUps = Map.groupBy((await metrics.lookUpSeconds.get()).values, ({ labels }) => labels.kind);
    return {
      links: await linksMade(house),
      wallS,
      cpuS,
      eventLoopS,
      lookUps: [...lookUps].map(([kind, values]) => {
        const figureOf = (suffix: string): number =>
          values.find(({ metricName }) => metricName?.endsWith(suffix) === true)?.value ?? 0;
        return { kind: String(kind), count: figureOf('_count'), totalS: figureOf('_sum') };
      }),
      peakBytes: memoryOf(process.pid).peakBytes,
    };
  }
}

/** @throws Error if a link is missing, duplicated, or unexpected. */
async function verify({ log, store, metrics }: LinksHouse, { expected }: LinksWorkload): Promise<void> {
  await eventually(() => areConsumed(log, PROJECTED_LINKS), Boolean, WITHIN_MS);
  const made = await metrics.linkChanges.get();
  const rows = await store.query<{ source: string; links: string }>(
    `SELECT toString(source) AS source, toString(count()) AS links FROM report_links
     WHERE state = 'linked' GROUP BY source`,
    {},
  );
  for (const source of ['session', 'named'] as const) {
    const counts = [
      made.values.find(({ labels }) => labels.source === source)?.value ?? 0,
      Number(rows.find((row) => row.source === source)?.links ?? 0),
    ];
    for (const count of counts) {
      if (count !== expected[source]) {
        throw new Error(`${expected[source]} links by ${source} were promised, and there are ${count}`);
      }
    }
  }
}

async function linksMade({ metrics }: LinksHouse): Promise<number> {
  return (await metrics.linkChanges.get()).values.reduce((sum, { value }) => sum + value, 0);
}

/** Returns the number of reports in the changelog that are not open yet or wait for a lookup. */
async function reportsToAsk({ log, registry }: LinksHouse): Promise<number> {
  const codec = await createCodec(registry, linkerState);
  const open = new Set<string>();
  const tail = await log.tail({
    topic: TOPICS.linkerState,
    from: 'earliest',
    onBatch: async ({ partition, records }) => {
      for (const { key, value } of records) {
        const report = value === null ? null : (await codec.decode(value)).report;
        const isToAsk = report !== null && (report.phase === 'waiting' || report.askAt !== null);
        if (isToAsk) open.add(`${partition}/${key}`);
        else open.delete(`${partition}/${key}`);
      }
    },
  });
  await tail.waitForOffsets(await log.endOffsets(TOPICS.linkerState));
  await tail.close();
  return open.size;
}

function secondsOf({ user, system }: NodeJS.CpuUsage): number {
  return (user + system) / 1e6;
}
