/** The figures of a load run as Markdown, put between the markers of a page. */
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import type { LoadFigures } from './measureLoad.ts';
import type { LoadOptions } from './options.ts';

const BEGIN = '<!-- figures:begin -->';
const END = '<!-- figures:end -->';

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
  return [
    `Measured ${new Date().toISOString().slice(0, 10)} on ${machine()}.`,
    '',
    '| what | figure |',
    '| --- | --- |',
    ...rows.map(([what, figure]) => `| ${what} | ${figure} |`),
  ].join('\n');
}

/** @throws when the page has no place for figures. */
export function putIntoPage(path: string, report: string): void {
  const page = readFileSync(path, 'utf8');
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`${path} has no ${BEGIN} … ${END}`);
  writeFileSync(path, `${page.slice(0, begin + BEGIN.length)}\n\n${report}\n\n${page.slice(end)}`);
}

function machine(): string {
  const [cpu] = cpus();
  const gibibytes = (totalmem() / 1024 ** 3).toFixed(0);
  return `${cpu?.model ?? 'an unknown CPU'}, ${cpus().length} cores, ${gibibytes} GiB, ${process.platform}, Node ${process.versions.node}`;
}

function mebibytes(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(bytes < 10 * 1024 ** 2 ? 1 : 0)} MiB`;
}

function grouped(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
