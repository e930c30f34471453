/** Formats the figures of the benchmark of links as Markdown rows. */

import type { FailoverFigures, TransactionFigures } from '../failover/linkerFailover.ts';
import type { AloneFigures } from './linksAlone.ts';
import type { ChangelogFigures } from './linksChangelog.ts';
import type { LiveFigures, RunFigures } from './linksLive.ts';
import type { MemoryFigures } from './linksMemory.ts';
import type { LinksOptions } from './linksOptions.ts';
import { WORKLOAD } from './linksWorkload.ts';

export function aloneRows(unasked: AloneFigures, asked: AloneFigures, options: LinksOptions): string[] {
  const both = (of: (figures: AloneFigures) => string): string => `${of(unasked)} | ${of(asked)}`;
  const anEvent = (seconds: number): string => micros(seconds, options.events);
  return [
    ...table(
      `The linker alone, ${grouped(options.events)} events of ${grouped(WORKLOAD.sessions)} sessions`,
      'no reports',
      `${grouped(options.reports)} reports`,
    ),
    `| CPU an event | ${both(({ cpuS }) => anEvent(cpuS))} |`,
    `| CPU a link, beyond the events' own | | ${micros(asked.cpuS - unasked.cpuS, asked.links)} |`,
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
    `| until all events are answered | ${ratio(({ eventsS }) => eventsS)} |`,
    `| CPU until everything is in ClickHouse | ${ratio(({ cpuS }) => cpuS)} |`,
    `| after the load, until all is linked | | ${seconds(linked.linkedAfterS)}, ${grouped(linked.links)} links |`,
    `| resident memory at its highest | ${both(({ rss }) => mebibytes(rss.peak))} |`,
  ];
}

export function memoryRows(figures: MemoryFigures): string[] {
  return [
    '',
    `Heap of a partition’s state: ${grouped(figures.bySession)} bytes an open report, ${mebibytes(figures.atBounds)} at its bounds.`,
  ];
}

export function changelogRows({ written, partitions, heldBytes }: ChangelogFigures): string[] {
  const bytes = written.map((one) => one.bytes.toFixed(2)).join(', ');
  const appends = written.map((one) => grouped(one.appends)).join(', ');
  return [
    '',
    `Changelog: ${bytes} bytes for each byte of appends of one event, with ${appends} of them a commit. The append ids that ${partitions} partitions remember take ${mebibytes(heldBytes)}.`,
  ];
}

export function failoverRows(
  figures: FailoverFigures,
  { aSecond, requests }: TransactionFigures,
  { partitions, mebibytes: size }: LinksOptions,
): string[] {
  const { startS, failoverS, cpuS, peakBytes } = figures;
  return [
    ...table(`On Kafka, ${partitions} partitions, ${grouped(size)} MiB of changelog`, ''),
    `| from the start of a linker until each partition links | ${seconds(startS)} |`,
    `| from the kill of one until its successor links everywhere | ${seconds(failoverS)}, ${seconds(cpuS)} of CPU |`,
    `| resident memory of the successor at its highest | ${mebibytes(peakBytes)} |`,
    `| transactions of one partition, one after the other | ${grouped(aSecond)} a second, of ${requests.toFixed(1)} requests |`,
  ];
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
