/** The figures of the bench of links as rows of Markdown. */
import { cpus, totalmem } from 'node:os';
import type { AloneFigures } from './linksAlone.ts';
import type { LiveFigures, RunFigures } from './linksLive.ts';
import type { MemoryFigures } from './linksMemory.ts';
import type { LinksOptions } from './linksOptions.ts';
import type { LookUpFigures } from './linksWatch.ts';
import { WORKLOAD } from './linksWorkload.ts';

export function page(rows: readonly string[]): string {
  const [cpu] = cpus();
  const gibibytes = (totalmem() / 1024 ** 3).toFixed(0);
  const machine = `${cpu?.model ?? 'an unknown CPU'}, ${cpus().length} cores, ${gibibytes} GiB, ${process.platform}`;
  const date = new Date().toISOString().slice(0, 10);
  return [`Measured ${date} on ${machine}, Node ${process.versions.node}.`, ...rows].join('\n');
}

export function aloneRows(unasked: AloneFigures, asked: AloneFigures, options: LinksOptions): string[] {
  const both = (of: (figures: AloneFigures) => string): string => `${of(unasked)} | ${of(asked)}`;
  const anEvent = (seconds: number): string => micros(seconds, options.events);
  return [
    ...table(
      `The linker alone, ${grouped(options.events)} events of ${grouped(WORKLOAD.sessions)} sessions`,
      'no reports',
      `${grouped(options.reports)} reports`,
    ),
    `| CPU an event; on the event loop | ${both(({ cpuS, eventLoopS }) => `${anEvent(cpuS)}; ${anEvent(eventLoopS)}`)} |`,
    `| CPU a link, beyond the events' own | | ${micros(asked.cpuS - unasked.cpuS, asked.links)} |`,
    `| until all is taken in, looked up and linked | ${both(({ wallS }) => seconds(wallS))} |`,
    `| links | ${both(({ links }) => grouped(links))} |`,
    `| look-ups, mean time | ${both(({ lookUps }) => lookUps.map((of) => `${grouped(of.count)} \`${of.kind}\`, ${seconds(of.totalS / of.count)}`).join('; '))} |`,
    `| resident memory at its highest | ${both(({ peakBytes }) => mebibytes(peakBytes))} |`,
  ];
}

export function liveRows({ plain, linked }: LiveFigures, options: LinksOptions): string[] {
  const both = (of: (run: RunFigures) => string): string => `${of(plain)} | ${of(linked)}`;
  const ratio = (of: (run: RunFigures) => number): string =>
    `${of(plain).toFixed(1)} s | ${seconds(of(linked))}, ${(of(linked) / of(plain)).toFixed(2)} times`;
  return [
    ...table(
      `\`npm start\` over HTTP, ${grouped(options.events)} events of ${grouped(options.sessions)} sessions`,
      'no reports',
      `${grouped(options.reports)} reports`,
    ),
    `| the events are answered after | ${ratio(({ eventsS }) => eventsS)}, the reports after ${seconds(linked.loadedS)} |`,
    `| CPU until everything is in ClickHouse | ${ratio(({ cpuS }) => cpuS)} |`,
    `| links; told in answers to events | ${both(({ links, told }) => `${grouped(links)}; ${grouped(told)}`)} |`,
    `| largest lag of the linker, records of events; of reports | ${both(({ largestLag }) => `${grouped(largestLag.events)}; ${grouped(largestLag.reports)}`)} |`,
    `| behind the load, until every link is in \`report_links\` | | ${seconds(linked.linkedAfterS)} |`,
    `| behind the load, until nothing lags | ${both(({ settledAfterS }) => seconds(settledAfterS))} |`,
    `| look-ups, mean time | | ${linked.lookUps.map(lookUp).join('; ')} |`,
    `| resident memory at start, at the end, at its highest | ${both(({ rss }) => `${mebibytes(rss.atStart)}, ${mebibytes(rss.atEnd)}, ${mebibytes(rss.peak)}`)} |`,
  ];
}

export function memoryRows(figures: MemoryFigures): string[] {
  return [
    ...table('Heap of a linker’s state', 'bytes'),
    `| an open report of a session | ${grouped(figures.bySession)} |`,
    `| an open report that names 1 event | ${grouped(figures.naming1)} |`,
    `| each further event that it names | ${grouped(figures.eventId)} |`,
    `| a report beyond the bounds (\`spilled\`) | ${grouped(figures.spilled)} |`,
    `| a partition at the bounds of what is open | ${mebibytes(figures.atBounds)} |`,
  ];
}

function lookUp({ kind, count, meanS, p99BelowS }: LookUpFigures): string {
  return `${grouped(count)} \`${kind}\`, ${seconds(meanS)}, 99 of 100 below ${p99BelowS} s`;
}

function table(...heads: string[]): string[] {
  return ['', `| ${heads.join(' | ')} |`, `| ${heads.map(() => '---').join(' | ')} |`];
}

function micros(seconds: number, count: number): string {
  return `${((seconds * 1e6) / count).toFixed(1)} µs`;
}

function seconds(value: number): string {
  return `${value.toFixed(value < 10 ? 2 : 1)} s`;
}

function mebibytes(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(0)} MiB`;
}

function grouped(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
