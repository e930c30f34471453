/** Formats the figures of a load run as Markdown. */
import { page } from '../figuresPage.ts';
import type { LoadOptions } from './loadOptions.ts';
import type { LoadFigures } from './measureLoad.ts';

export function loadReport(figures: LoadFigures, options: LoadOptions): string {
  const { load, reads, rss } = figures;
  const rows: [string, string][] = [
    ['sessions a second', grouped(figures.sessionsPerSecond)],
    [`events a second, ${options.batch} a request`, grouped(load.eventsPerSecond)],
    ['CPU an event, projection included', `${load.cpuMicrosPerEvent.toFixed(1)} µs`],
    ['all in ClickHouse, after the last answer', `${load.caughtUpAfterS.toFixed(1)} s`],
    ['`GET /v1/events/{id}`, p50; p99', `${reads.p50Ms.toFixed(1)} ms; ${reads.p99Ms.toFixed(1)} ms`],
    ['memory at start; at its highest', `${mebibytes(rss.atStart)}; ${mebibytes(rss.peak)}`],
    [
      'log; ClickHouse on disk, a million events',
      [figures.logBytes, figures.clickHouseBytes]
        .map((bytes) => mebibytes((bytes * 1e6) / options.events))
        .join('; '),
    ],
  ];
  return page([
    '',
    '| what | figure |',
    '| --- | --- |',
    ...rows.map(([what, figure]) => `| ${what} | ${figure} |`),
  ]);
}

function mebibytes(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(bytes < 10 * 1024 ** 2 ? 1 : 0)} MiB`;
}

function grouped(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
